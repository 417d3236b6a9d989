// An image of a test set: a cell of a sheet, the server's full image, or a placeholder.
import { html } from "./html.js";
import { page } from "./data.js";

const addresses = new WeakMap();

function addressOf(blob) {
  if (!addresses.has(blob)) addresses.set(blob, URL.createObjectURL(blob));
  return addresses.get(blob);
}

// Sheet, column and row of an image, or null.
export function place(test, i) {
  const at = test.cell(i);
  if (at < 0) return null;
  const { columns, per_sheet: perSheet } = test.raw.thumbnails;
  const cell = at % perSheet;
  return { sheet: Math.floor(at / perSheet), column: cell % columns, row: Math.floor(cell / columns) };
}

export const fullAddress = (test, i, size) => `/${page.live.token}/image/${test.index}/${i}?size=${size}`;

// `size` in pixels; `full`: from the server where there is one.
export function Thumb({ test, i, size = 64, full = false }) {
  const label = `${test.className(i)}${test.file(i) && `, ${test.file(i)}`}`;
  const box = { width: `${size}px`, height: `${size}px` };
  if (full && page.live && !test.lost.has(i))
    return html`<img class="thumb" src=${fullAddress(test, i, size * 2)} alt=${label} style=${box} loading="lazy" />`;
  const at = place(test, i);
  if (!at)
    return html`<span class="thumb lost" role="img" aria-label=${`${label} (no picture)`} title=${test.lost.has(i) ? "The file is gone or cannot be read." : "This page has no small picture of it."} style=${box}>
      <span dir="auto">${test.className(i).slice(0, 2)}</span></span>`;
  const { sheet, column, row } = at;
  Object.assign(box, {
    backgroundImage: `url("${addressOf(test.sheet(sheet))}")`,
    backgroundSize: `${test.raw.thumbnails.columns * size}px auto`,
    backgroundPosition: `${-column * size}px ${-row * size}px`,
  });
  return html`<span class="thumb" role="img" aria-label=${label} style=${box}></span>`;
}
