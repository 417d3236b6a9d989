// One explanation at a time, on hover, focus and tap; Escape closes it.
let box = null;
let owner = null;

function show(event, text) {
  owner = event.currentTarget;
  if (!box) {
    box = document.createElement("div");
    box.id = "tip";
    box.setAttribute("role", "tooltip");
    document.body.append(box);
  }
  box.textContent = text;
  box.hidden = false;
  const around = owner.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = box;
  const left = Math.max(8, Math.min(innerWidth - width - 8, around.left + around.width / 2 - width / 2));
  const above = around.top - height - 8;
  box.style.left = `${left}px`;
  box.style.top = `${above > 4 ? above : around.bottom + 8}px`;
}

export function hideTip() {
  owner = null;
  if (box) box.hidden = true;
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("pointerdown", (event) => owner && !owner.contains(event.target) && hideTip());
addEventListener("scroll", () => owner && owner !== document.activeElement && hideTip(), { capture: true, passive: true });

// Properties of the element that the text explains.
export const tip = (text) => ({
  onMouseEnter: (event) => show(event, text),
  onFocus: (event) => show(event, text),
  onClick: (event) => show(event, text),
  onMouseLeave: hideTip,
  onBlur: hideTip,
  "aria-describedby": "tip",
});
