// Same or not: the threshold, its errors, the ROC curve, the pairs just above and below.
import { html, useMemo } from "./html.js";
import { go, useAddress } from "./address.js";
import { Axes, linear, path, ticks } from "./chart.js";
import { ofMethod } from "./colours.js";
import { testSet } from "./data.js";
import { count, percent, value } from "./format.js";
import { Picture } from "./gallery.js";
import { Empty, MethodChoice, Section, useWidth } from "./pieces.js";
import { useTheme } from "./theme.js";

function nearest(grid, at) {
  let best = 0;
  grid.forEach((one, i) => { if (Math.abs(one - at) < Math.abs(grid[best] - at)) best = i; });
  return best;
}

// Pairs of a query and a neighbour whose similarity is next to the threshold.
function pairsAround(method, at) {
  const found = { above: [], below: [] };
  const seen = new Set();
  const keep = (list, pair, sign) => {
    if (list.length === 12 && (list[11][2] - pair[2]) * sign <= 0) return;
    const key = Math.min(pair[0], pair[1]) * 4294967 + Math.max(pair[0], pair[1]);
    if (seen.has(key)) return;
    seen.add(key);
    list.push(pair);
    list.sort((x, y) => (x[2] - y[2]) * sign);
    if (list.length > 12) list.pop();
  };
  const rows = method.raw.neighbours.shape[0];
  for (let place = 0; place < rows; place++) {
    const i = method.queries ? method.queries[place] : place;
    if (!method.asks(i)) continue;
    for (const { image, similarity } of method.neighbours(i)) keep(similarity >= at ? found.above : found.below, [i, image, similarity], similarity >= at ? 1 : -1);
  }
  return found;
}

function Rate({ name, text, rate, interval, kind }) {
  return html`<div class=${`rate ${kind}`}><dt>${name}</dt><dd><strong>${percent(rate)}</strong>${interval?.[0] != null && html`<span class="hint">95 %: ${percent(interval[0])} to ${percent(interval[1])}</span>`}<span class="hint">${text}</span></dd></div>`;
}

function Errors({ threshold, at, width }) {
  const box = { left: 52, right: width - 12, top: 28, bottom: 214 };
  const { grid } = threshold;
  const x = linear(grid[0], grid.at(-1), box.left, box.right);
  const y = linear(0, 1, box.bottom, box.top);
  const line = (list) => path(list.map((rate, i) => [x(grid[i]), y(rate)]));
  const band = (list) => `${path(list.map(([, high], i) => [x(grid[i]), y(high)]))}${path([...list.keys()].reverse().map((i) => [x(grid[i]), y(list[i][0])])).replace("M", "L")}Z`;
  return html`<svg width=${width} height="260" role="img" aria-label="False accepts and false rejects by threshold">
    <${Axes} box=${box} x=${x} y=${y} xTicks=${ticks(grid[0], grid.at(-1), 6)} yTicks=${[0, 0.25, 0.5, 0.75, 1]} yText=${(tick) => `${tick * 100} %`} xName="threshold (similarity)" yName="rate of errors" />
    ${threshold.intervals && !threshold.intervals.false_accept.flat().includes(null) && html`<path class="band accept" d=${band(threshold.intervals.false_accept)} /><path class="band reject" d=${band(threshold.intervals.false_reject)} />`}
    <path class="line accept" d=${line(threshold.false_accept)} /><path class="line reject" d=${line(threshold.false_reject)} />
    <line class="at" x1=${x(grid[at])} x2=${x(grid[at])} y1=${box.top} y2=${box.bottom} /></svg>`;
}

function Roc({ threshold, at, width, colour }) {
  const side = Math.min(width, 340);
  const box = { left: 52, right: side - 24, top: 28, bottom: 214 };
  const x = linear(0, 1, box.left, box.right);
  const y = linear(0, 1, box.bottom, box.top);
  const points = threshold.false_accept.map((rate, i) => [x(rate), y(1 - threshold.false_reject[i])]);
  const text = (tick) => `${tick * 100} %`;
  return html`<svg width=${side} height="260" role="img" aria-label="ROC curve">
    <${Axes} box=${box} x=${x} y=${y} xTicks=${[0, 0.5, 1]} yTicks=${[0, 0.5, 1]} xText=${text} yText=${text} xName="false accepts" yName="found pairs of a class" />
    <line class="chance" x1=${x(0)} y1=${y(0)} x2=${x(1)} y2=${y(1)} /><path class="line" d=${path(points)} stroke=${colour} />
    <circle cx=${points[at][0]} cy=${points[at][1]} r="6" fill=${colour} /></svg>`;
}

function Pairs({ test, list, title, empty }) {
  return html`<div><h4>${title}</h4>${list.length ? html`<ul class="twos">${list.map(([i, j, similarity]) => { const same = test.classOf[i] === test.classOf[j];
    return html`<li key=${`${i}-${j}`} class=${same ? "right" : "wrong"}><${Picture} test=${test} i=${i} size=${56} /><${Picture} test=${test} i=${j} size=${56} /><span class="note">${value(similarity)} ${same ? "✓ same class" : "✗ two classes"}</span></li>`; })}</ul>` : html`<${Empty}>${empty}<//>`}</div>`;
}

function Slider({ test, method }) {
  useTheme();
  const { th } = useAddress("th");
  const [ref, width] = useWidth();
  const { threshold } = method;
  const home = nearest(threshold.grid, threshold.value);
  const at = th === "" || !Number.isFinite(Number(th)) ? home : nearest(threshold.grid, Number(th));
  const level = at === home ? threshold.value : threshold.grid[at];
  const pairs = useMemo(() => (at === home ? threshold : pairsAround(method, level)), [method, at]);
  const set = (event) => { const next = Number(event.currentTarget.value); go({ th: next === home ? "" : String(threshold.grid[next]) }); };
  const interval = (key) => threshold.intervals?.[key][at];
  const half = width > 760 ? width - 360 : width;
  return html`<div class="slider"><label for="threshold">Two images are the same class from a similarity of <output>${value(level)}</output></label>
      <input id="threshold" type="range" min="0" max=${threshold.grid.length - 1} step="1" value=${at} onInput=${set} aria-valuetext=${value(level)} />
      <p class="hint">Chosen at ${value(threshold.value)} on the ${threshold.source}. ${at !== home && html`<button type="button" class="link" onClick=${() => go({ th: "" })}>Back to it</button>`}</p></div>
    <dl class="rates"><${Rate} kind="accept" name="False accepts" text="pairs of two classes called the same" rate=${threshold.false_accept[at]} interval=${interval("false_accept")} />
      <${Rate} kind="reject" name="False rejects" text="pairs of one class called different" rate=${threshold.false_reject[at]} interval=${interval("false_reject")} /></dl>
    <div ref=${ref} class="drawings">${width > 0 && html`<${Errors} threshold=${threshold} at=${at} width=${half} /><${Roc} threshold=${threshold} at=${at} width=${width} colour=${ofMethod(method.row)} />`}</div>
    <div class="halves"><${Pairs} test=${test} list=${pairs.above} title="Just above: called the same" empty="No stored pair is above it." /><${Pairs} test=${test} list=${pairs.below} title="Just below: called different" empty="No stored pair is below it." /></div>
    ${at !== home && html`<p class="hint">Away from the chosen threshold, the pairs are queries with one of their ${count(method.k)} stored neighbours.</p>`}`;
}

export function Same() {
  const { t, sm } = useAddress("t", "sm");
  const test = testSet(t);
  const able = test?.methods.filter(({ threshold }) => threshold) ?? [];
  const method = able.find(({ index }) => index === sm) ?? able[0];
  return html`<${Section} id="same" title="Same or not" lead="With a threshold, an embedding answers whether two images show the same class.">
    ${method ? html`<div class="bar"><${MethodChoice} test=${test} value=${method.index} only=${({ threshold }) => threshold} onChange=${(next) => go({ sm: next, th: "" })} /></div><${Slider} key=${`${t}-${method.index}`} test=${test} method=${method} />`
      : html`<${Empty}>No method of this study has a threshold: no run has stored embeddings with at least two classes.<//>`}<//>`;
}
