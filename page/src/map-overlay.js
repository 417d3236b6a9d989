// What is drawn over the points: thumbnails that do not overlap, the point under the pointer, the lasso.
import { css } from "./colours.js";
import { place } from "./thumbs.js";

const SIDE = 44;
const bitmaps = new WeakMap();

// The sheet as a bitmap, or null and a call of `ready` when it is there.
function bitmap(test, number, ready) {
  const blob = test.sheet(number);
  if (!bitmaps.has(blob)) {
    bitmaps.set(blob, null);
    createImageBitmap(blob).then((made) => { bitmaps.set(blob, made); ready(); });
  }
  return bitmaps.get(blob);
}

export function drawThumb(context, test, i, left, top, side, ready) {
  const at = place(test, i);
  if (!at) return false;
  const { sheet, column, row } = at;
  const source = bitmap(test, sheet, ready);
  if (!source) return false;
  const { size } = test.raw.thumbnails;
  context.drawImage(source, column * size, row * size, size, size, left, top, side, side);
  return true;
}

// A free image for each cell of a grid that moves with the map, so that panning changes no choice.
export function spread(test, view, grid, kept) {
  const cell = (SIDE + 6) / 2 ** Math.floor(Math.log2(view.zoom)) / (view.scale / view.zoom);
  const taken = new Map();
  const [left, bottom] = view.world(-SIDE, view.height + SIDE);
  const [right, top] = view.world(view.width + SIDE, -SIDE);
  const chosen = [];
  grid.each(left, bottom, right, top, (i, x, y) => {
    if ((kept && !kept.has(i)) || test.cell(i) < 0) return;
    const [column, row] = [Math.floor(x / cell), Math.floor(y / cell)];
    const key = column * 65536 + row;
    const other = taken.get(key);
    if (other === undefined || i < other.i) taken.set(key, { i, x, y, column, row });
  });
  for (const one of [...taken.values()].sort((a, b) => a.i - b.i)) {
    let free = true;
    for (let dx = -1; dx <= 1 && free; dx++)
      for (let dy = -1; dy <= 1 && free; dy++) {
        const near = taken.get((one.column + dx) * 65536 + one.row + dy);
        if (near?.shown && Math.abs(near.x - one.x) < cell && Math.abs(near.y - one.y) < cell) free = false;
      }
    one.shown = free;
    if (free) chosen.push(one);
  }
  return chosen;
}

export function drawOverlay(context, { test, view, grid, kept, tint, hover, loop, mark, ready }) {
  const ratio = devicePixelRatio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  const visible = test.raw.thumbnails && view.zoom >= (test.count < 400 ? 1 : test.count < 4000 ? 2 : 3);
  if (visible)
    for (const { i, x, y } of spread(test, view, grid, kept)) {
      const [left, top] = view.screen(x, y);
      if (!drawThumb(context, test, i, left - SIDE / 2, top - SIDE / 2, SIDE, ready)) continue;
      context.lineWidth = 2.5;
      context.strokeStyle = css(tint(i));
      context.strokeRect(left - SIDE / 2, top - SIDE / 2, SIDE, SIDE);
    }
  if (hover >= 0) ring(context, test, view, grid, hover, mark);
  if (loop?.length > 1) {
    context.beginPath();
    loop.forEach(([left, top], i) => (i ? context.lineTo(left, top) : context.moveTo(left, top)));
    context.closePath();
    context.lineWidth = 1.5;
    context.strokeStyle = mark;
    context.setLineDash([5, 4]);
    context.stroke();
    context.setLineDash([]);
  }
}

// The point and the others of its class.
function ring(context, test, view, grid, hover, mark) {
  const own = test.classOf[hover];
  context.strokeStyle = mark;
  for (const i of test.members[own].slice(0, 2000)) {
    const [left, top] = view.screen(grid.positions[2 * i] / 65535, grid.positions[2 * i + 1] / 65535);
    context.lineWidth = i === hover ? 2.5 : 1;
    context.beginPath();
    context.arc(left, top, i === hover ? 8 : 4.5, 0, 2 * Math.PI);
    context.stroke();
  }
}
