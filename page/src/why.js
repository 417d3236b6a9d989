// Why two images are similar: activation maps and the regions that make the cosine, drawn over the thumbnails.
import { html, useEffect, useRef } from "./html.js";
import { decode } from "./arrays.js";
import { go, useAddress } from "./address.js";
import { testSet } from "./data.js";
import { Picture, ask } from "./gallery.js";
import { value } from "./format.js";
import { Choice, Empty, Name, Section } from "./pieces.js";
import { Thumb } from "./thumbs.js";

const SIZE = 144;

// From nothing (clear) over yellow to red; what speaks against similarity is blue.
function colour(part) {
  const strength = Math.min(1, Math.abs(part));
  return part < 0 ? [30, 90, 220, 200 * strength] : [255, Math.round(225 - 190 * strength), 30, Math.round(220 * strength ** 1.4)];
}

// `signed`: 0 means nothing; otherwise the least value does.
function paint(canvas, field, signed) {
  const [rows, columns] = field.shape;
  const values = decode(field);
  const least = signed ? 0 : values.reduce((a, b) => Math.min(a, b));
  const most = values.reduce((a, b) => Math.max(a, Math.abs(b - least)), 0) || 1;
  const small = new OffscreenCanvas(columns, rows);
  const context = small.getContext("2d");
  const image = context.createImageData(columns, rows);
  values.forEach((one, i) => image.data.set(colour((one - least) / most), 4 * i));
  context.putImageData(image, 0, 0);
  const target = canvas.getContext("2d");
  target.clearRect(0, 0, canvas.width, canvas.height);
  target.imageSmoothingQuality = "high";
  target.drawImage(small, 0, 0, canvas.width, canvas.height);
}

function Heat({ test, i, field, caption, signed = false }) {
  const ref = useRef(null);
  useEffect(() => { if (field) paint(ref.current, field, signed); }, [field]);
  return html`<figure><button type="button" class="picture" aria-label=${`${caption}: search with this image`} onClick=${() => ask(i)}><span class="frame"><${Thumb} test=${test} i=${i} size=${SIZE} full=${true} />
    <canvas class="heatmap" ref=${ref} width=${SIZE} height=${SIZE} aria-hidden="true"></canvas></span></button><figcaption class="caption">${caption}</figcaption></figure>`;
}

function One({ test, map }) {
  const same = test.classOf[map.image] === test.classOf[map.neighbour];
  return html`<p class="verdict">${!/^(exact|an? approx|approx)/i.test(map.text) && html`<strong>${map.exact ? "Exact." : "An approximation."}</strong> `}${map.text}${map.cosine != null && ` Cosine ${value(map.cosine)}.`}</p>
    <p class="caption"><${Name} text=${test.className(map.image)} /> and its nearest image, <${Name} text=${test.className(map.neighbour)} /> ${same ? "✓ same class" : "✗ another class"}</p>
    <div class="heatmaps"><${Heat} test=${test} i=${map.image} field=${map.query_map} signed=${true} caption="Query: what makes them similar" /><${Heat} test=${test} i=${map.neighbour} field=${map.neighbour_map} signed=${true} caption="Neighbour: what makes them similar" />
      <${Heat} test=${test} i=${map.image} field=${map.activation} caption="Query: activation" /><${Heat} test=${test} i=${map.neighbour} field=${map.neighbour_activation} caption="Neighbour: activation" /></div>
    <p class="hint">Yellow to red: more. Blue: speaks against similarity.</p>`;
}

function Maps({ test }) {
  const state = useAddress("wq", "wm");
  const { maps, queries } = test.why;
  const query = queries.includes(state.wq) ? state.wq : queries[0];
  const here = maps.filter(({ image }) => image === query);
  const map = here.find(({ method }) => method === state.wm) ?? here[0];
  return html`<div class="gallery">${queries.map((i) => html`<div class=${i === query ? "on" : ""} key=${i}><${Picture} test=${test} i=${i} size=${56} onClick=${() => go({ wq: i })} /></div>`)}</div>
    ${here.length > 1 && html`<div class="bar"><${Choice} label="Method" value=${map.method} options=${here.map(({ method }) => [method, test.methods[method].label])} onChange=${(wm) => go({ wm: Number(wm) })} /></div>`}
    ${test.why.notes?.map((note) => html`<p class="hint" dir="auto">${note}</p>`)}
    ${map ? html`<${One} test=${test} map=${map} />` : html`<${Empty}>No map was computed for this query.<//>`}`;
}

export function Why() {
  const { t } = useAddress("t");
  const test = testSet(t);
  return html`<${Section} id="why" title="Why" lead="Which regions of two images make an embedding call them similar.">
    ${test?.why?.maps.length ? html`<${Maps} test=${test} key=${t} />` : html`<${Empty}>${test?.why?.notes?.[0] ?? "No run of this study has a network whose regions can be read: it takes a stored model and the image files."}<//>`}<//>`;
}
