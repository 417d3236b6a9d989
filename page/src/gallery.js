// Images in a row or a grid. A click makes an image the query.
import { html } from "./html.js";
import { visit } from "./address.js";
import { Name, useMore } from "./pieces.js";
import { reveal } from "./reveal.js";
import { Thumb } from "./thumbs.js";

export function ask(i, more = {}) {
  visit({ q: i, at: "search", ...more });
  reveal("search");
}

// `right`: true, false or null (neither); `note`: what stands under the image.
export function Picture({ test, i, right = null, note, size = 64, full = false, onClick = () => ask(i) }) {
  const judged = right === null ? "" : right ? "right" : "wrong";
  const words = `${test.className(i)}${judged && `, ${judged} class`}${note ? `, ${note}` : ""}: search with this image`;
  return html`<button type="button" class=${`picture ${judged}`} onClick=${onClick} aria-label=${words} title=${test.className(i)}>
    <span class="frame"><${Thumb} test=${test} i=${i} size=${size} full=${full} />
      ${judged && html`<span class="mark" aria-hidden="true">${right ? "✓" : "✗"}</span>`}</span>
    ${note && html`<span class="note">${note}</span>`}
  </button>`;
}

export function Gallery({ test, images, size = 64, note, step = 24, id = "", more = {} }) {
  const [shown, button] = useMore(images, step, `${id}${images.length}${images[0]}`);
  return html`<div class="gallery">
      ${shown.map((i) => html`<${Picture} key=${i} test=${test} i=${i} size=${size} note=${note?.(i)} onClick=${() => ask(i, more)} />`)}
    </div>${button}`;
}

export const Caption = ({ children }) => html`<p class="caption">${children}</p>`;
export const ClassName = ({ test, number }) => html`<${Name} text=${test.classes[number]} />`;
