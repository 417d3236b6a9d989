// Search results: a query and its nearest images by up to four methods.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { go, useAddress, visit } from "./address.js";
import { page, testSet } from "./data.js";
import { count, plural, value } from "./format.js";
import { Picture } from "./gallery.js";
import { Photo } from "./photo.js";
import { Choice, ClassChoice, Dot, Empty, Method, Name, Section, Switch } from "./pieces.js";
import { useNeighbours } from "./neighbours.js";
import { chosenMethods, playlist } from "./queries.js";
import { Thumb } from "./thumbs.js";

const WAYS = [["random", "At random"], ["worst", "Worst first"], ["disagree", "Methods disagree"], ["class", "By class"], ["find", "By typing"]];

function MethodToggles({ test, chosen }) {
  const toggle = (m) => {
    const next = chosen.includes(m) ? chosen.filter((one) => one !== m) : [...chosen, m].sort((a, b) => a - b);
    if (next.length) go({ m: next.join(".") });
  };
  return html`<div class="chips" role="group" aria-label="Methods, up to four">
    ${test.methods.map(({ index, row }) => html`<button type="button" class="chip" aria-pressed=${chosen.includes(index)}
      disabled=${!chosen.includes(index) && chosen.length >= 4} onClick=${() => toggle(index)}><${Dot} row=${row} /><${Name} text=${row.label} /></button>`)}
  </div>`;
}

// Of a query that the study did not search, only the list from the server is known.
function firstRight(test, method, i, list) {
  const rank = method.asks(i) ? method.firstRight[i] : list.findIndex(({ image }) => test.classOf[image] === test.classOf[i]) + 1;
  if (rank) return rank === 1 ? "nearest is right" : `first right at rank ${count(rank)}`;
  return method.asks(i) ? "no other image of its class" : `none of the ${list.length} nearest is right`;
}

export function Ranking({ test, method, i, k }) {
  const { list, reason } = useNeighbours(test, method, i);
  const right = test.classOf[i];
  return html`<div class="ranking">
    <div class="who"><${Method} row=${method.row} />
      ${list && html`<span class="hint">${firstRight(test, method, i, list)}</span>`}</div>
    ${list ? html`<ol class="strip">${list.slice(0, k).map(({ image, similarity }) => html`<li key=${image}><${Picture} test=${test} i=${image} right=${test.classOf[image] === right} note=${value(similarity, 3)} size=${72} full=${true} onClick=${() => visit({ q: image })} /></li>`)}</ol>`
      : html`<${Empty}>${reason}<//>`}
  </div>`;
}

function Query({ test, i }) {
  return html`<div class="query"><${Thumb} test=${test} i=${i} size=${128} full=${true} />
    <dl><dt>Query</dt><dd><${Name} text=${test.className(i)} class="big" /></dd>
      ${test.file(i) && html`<dd class="hint"><${Name} text=${test.file(i)} /></dd>`}
      ${test.groupOf && html`<dd class="hint"><${Name} text=${test.groups[test.groupOf[i]]} /></dd>`}
      <dd class="hint">image ${count(i + 1)} of ${count(test.count)}</dd></dl></div>`;
}

function useKeys(step) {
  const latest = useRef(step);
  latest.current = step; // a key may come before the effects of the last one have run
  useEffect(() => {
    const listener = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, canvas, table, [role=slider]")) return;
      const inside = event.target.closest("#search");
      if (event.key === "n" || (inside && event.key === "ArrowRight")) latest.current(1);
      else if (event.key === "p" || (inside && event.key === "ArrowLeft")) latest.current(-1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
}

function Chooser({ test, state, list, at, step }) {
  const [typed, setTyped] = useState(state.find);
  useEffect(() => { const timer = setTimeout(() => typed !== state.find && go({ find: typed, q: -1 }), 150); return () => clearTimeout(timer); }, [typed]);
  useEffect(() => setTyped(state.find), [state.find]);
  const choose = (by) => go({ by, q: -1, c: by === "class" && state.c < 0 ? test.classOf[state.q >= 0 ? state.q : 0] : state.c });
  return html`<div class="bar">
    <${Switch} label="Queries" value=${state.by} options=${WAYS} onChange=${choose} />
    ${state.by === "class" && html`<${ClassChoice} label="Class" test=${test} value=${state.c} onChange=${(c) => c >= 0 && go({ c, q: -1 })} />`}
    ${state.by === "find" && html`<label class="choice"><span>Class or file</span><input type="search" value=${typed} dir="auto" placeholder="part of a name" onInput=${(event) => setTyped(event.currentTarget.value)} /></label>`}
    <${Choice} label="Show" value=${state.k} options=${[...new Set([5, 10, 20, 50, state.k])].sort((a, b) => a - b).map((k) => [k, `${k} nearest`])} onChange=${(k) => go({ k: Number(k) })} />
    <div class="pager"><button type="button" onClick=${() => step(-1)} aria-label="Previous query" title="Key p or ←">‹</button>
      <span aria-live="polite">${list.length ? `${at >= 0 ? count(at + 1) : "–"} of ${count(list.length)}` : "none"}</span>
      <button type="button" onClick=${() => step(1)} aria-label="Next query" title="Key n or →">›</button></div>
  </div>`;
}

function Results({ test }) {
  const state = useAddress("t", "q", "by", "c", "find", "m", "k");
  const chosen = chosenMethods(test, state.m);
  const list = useMemo(() => playlist(test, chosen, state), [test, chosen.join(), state.by, state.c, state.find]);
  const i = state.q >= 0 && state.q < test.count ? state.q : list[0] ?? -1;
  const at = list.indexOf(i);
  const step = (by) => list.length && go({ q: list[(at + by + list.length) % list.length] });
  useKeys(step);
  return html`${state.q >= test.count && html`<p class="hint" role="status">The link names image ${count(state.q + 1)}; this study has ${plural(test.count, "test image")}. Another query is shown.</p>`}
    <${MethodToggles} test=${test} chosen=${chosen} />
    <${Chooser} test=${test} state=${{ ...state, q: i }} list=${list} at=${at} step=${step} />
    ${i < 0 ? html`<${Empty}>No query matches.<//>` : html`<div class="results"><${Query} test=${test} i=${i} />
      <div class="rankings">${chosen.map((m) => html`<${Ranking} key=${m} test=${test} method=${test.methods[m]} i=${i} k=${state.k} />`)}</div></div>
      <p class="hint">✓ right class, ✗ wrong class; the number is the similarity. Click an image to search with it. Keys: n next, p previous.</p>`}`;
}

export function Search() {
  const { t } = useAddress("t");
  const test = testSet(t);
  const lead = test && `${plural(test.count, "test image")} of ${plural(test.classes.length, "class", "classes")} that no method trained on.`;
  return html`<${Section} id="search" title="Search results" lead=${lead}>
    ${test?.notes.map((note) => html`<p class="hint">${note}</p>`)}
    ${page.live && test && html`<${Photo} test=${test} />`}
    ${test?.methods.length ? html`<${Results} test=${test} />` : html`<${Empty}>No run of this study has stored embeddings, so there is nothing to search.<//>`}
  <//>`;
}
