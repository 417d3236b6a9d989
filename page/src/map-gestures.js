// Pointer, wheel and keys on the map: pan, zoom, pinch, lasso, hover and tap.
const at = (event, canvas) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// `map`: {view, lassoing(), changed(), hover(left, top), tap(left, top), lasso(loop, done)}. Returns a function that ends it.
export function gestures(canvas, map) {
  const down = new Map();
  let moved = 0;
  let loop = null;
  let armed = false; // the wheel scrolls the page until the pointer has moved on the map

  function press(event) {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event, canvas));
    moved = 0;
    loop = down.size === 1 && (map.lassoing() || event.shiftKey) ? [at(event, canvas)] : null;
  }

  function move(event) {
    armed = true;
    const [left, top] = at(event, canvas);
    const before = down.get(event.pointerId);
    if (!before) return map.hover(left, top, event.pointerType);
    down.set(event.pointerId, [left, top]);
    moved += Math.abs(left - before[0]) + Math.abs(top - before[1]);
    if (loop) {
      loop.push([left, top]);
      return map.lasso(loop, false);
    }
    if (down.size === 1) map.view.pan(left - before[0], top - before[1]);
    else pinch(event.pointerId, before);
    return map.changed();
  }

  function pinch(id, before) {
    const [other] = [...down].filter(([key]) => key !== id).map(([, place]) => place);
    const now = down.get(id);
    const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]) || 1;
    map.view.zoomAt(distance(now, other) / distance(before, other), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    map.view.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  }

  function release(event) {
    if (!down.delete(event.pointerId)) return;
    if (loop) {
      if (loop.length > 2) map.lasso(loop, true);
      loop = null;
    } else if (moved < 5 && event.type === "pointerup") map.tap(...at(event, canvas));
  }

  function wheel(event) {
    if (!armed && !event.ctrlKey) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    map.view.zoomAt(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), ...at(event, canvas));
    map.changed();
  }

  function key(event) {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const { view } = map;
    if (steps[event.key]) view.pan(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") view.zoomAt(1.4, view.width / 2, view.height / 2);
    else if (event.key === "-") view.zoomAt(1 / 1.4, view.width / 2, view.height / 2);
    else if (event.key === "0") view.reset();
    else if (event.key === "Enter") return map.tap(view.width / 2, view.height / 2);
    else return;
    event.preventDefault();
    map.changed();
  }

  // a finger leaves after every tap, and what it tapped stays
  const leave = (event) => { if (event.pointerType === "mouse") { armed = false; map.hover(-1, -1); } };
  const disarm = () => (armed = false);
  const events = { pointerdown: press, pointermove: move, pointerup: release, pointercancel: release, pointerleave: leave, keydown: key };
  for (const [name, listener] of Object.entries(events)) canvas.addEventListener(name, listener);
  canvas.addEventListener("wheel", wheel, { passive: false });
  addEventListener("scroll", disarm, { passive: true });
  return () => {
    for (const [name, listener] of Object.entries(events)) canvas.removeEventListener(name, listener);
    canvas.removeEventListener("wheel", wheel);
    removeEventListener("scroll", disarm);
  };
}
