// Recall of each class by each method, and what a chosen class is taken for.
import { html, useMemo } from "./html.js";
import { go, useAddress } from "./address.js";
import { count, percent, plural } from "./format.js";
import { Gallery, Picture, ask } from "./gallery.js";
import { ClassChoice, Dot, Empty, Name, Switch, useMore } from "./pieces.js";

const ORDERS = [["spread", "Methods differ most"], ["worst", "Worst first"], ["name", "By name"]];

function ordered(test, order) {
  const recalls = test.methods.map((method) => method.recall);
  const keys = test.classes.map((_, c) => {
    const known = recalls.map((recall) => recall[c]).filter((one) => !Number.isNaN(one));
    if (!known.length) return null;
    if (order === "spread") return Math.min(...known) - Math.max(...known);
    return known.reduce((a, b) => a + b) / known.length;
  });
  const all = test.classes.map((_, c) => c).filter((c) => keys[c] !== null);
  if (order === "name") return all.sort((a, b) => test.classes[a].localeCompare(test.classes[b]));
  return all.sort((a, b) => keys[a] - keys[b] || a - b);
}

// 0 is the deepest colour: the eye goes to what fails.
const shade = (recall) => ({ "--part": `${Math.round((1 - recall) * 48)}%` });

function Row({ test, c, chosen }) {
  return html`<tr class=${chosen ? "tied" : ""}><th scope="row"><button type="button" class="link" aria-pressed=${chosen} onClick=${() => go({ cc: chosen ? -1 : c })}><${Name} text=${test.classes[c]} /></button></th>
    <td>${count(test.members[c].length)}</td>
    ${test.methods.map((method) => { const recall = method.recall[c]; return html`<td class="heat" style=${Number.isNaN(recall) ? {} : shade(recall)}>${Number.isNaN(recall) ? "–" : percent(recall, 0)}</td>`; })}</tr>`;
}

function Detail({ test, c }) {
  const taken = test.methods.map((method) => ({ method, list: method.takenFor.filter(([own]) => own === c).slice(0, 5) }));
  return html`<div class="detail"><h4><${Name} text=${test.classes[c]} /></h4>
    <${Gallery} test=${test} images=${test.members[c]} step=${16} id=${`class${c}`} more=${{ by: "class", c }} />
    <p class="caption">Taken for</p>
    ${taken.some(({ list }) => list.length) ? html`<ul class="taken">${taken.filter(({ list }) => list.length).map(({ method, list }) => html`<li><${Dot} row=${method.row} /><${Name} text=${method.label} />
      ${list.map(([, other, times]) => html`<span class="other">${test.members[other].length > 0 && html`<${Picture} test=${test} i=${test.members[other][0]} size=${40} />`}<button type="button" class="link" onClick=${() => go({ cc: other })}><${Name} text=${test.classes[other]} /></button> ×${count(times)}</span>`)}</li>`)}</ul>`
      : html`<${Empty}>It is not among the most frequent confusions of any method.<//>`}
    <p><button type="button" class="more" onClick=${() => ask(test.members[c][0] ?? -1, { by: "class", c })}>Search with its images</button></p></div>`;
}

export function Classes({ test }) {
  const state = useAddress("cc", "order");
  const list = useMemo(() => ordered(test, state.order), [test, state.order]);
  const [shown, more] = useMore(list, 12, state.order);
  const rows = state.cc >= 0 && state.cc < test.classes.length && !shown.includes(state.cc) ? [state.cc, ...shown] : shown;
  return html`<h3>Recall per class</h3>
    <p class="hint">How often the nearest image of a query of this class is of the same class, ${plural(list.length, "class", "classes")}.</p>
    <div class="bar"><${Switch} label="Order of classes" value=${state.order} options=${ORDERS} onChange=${(order) => go({ order })} />
      <${ClassChoice} label="Class" test=${test} value=${state.cc} onChange=${(cc) => go({ cc })} /></div>
    <div class="scroll" role="region" aria-label="Recall per class" tabindex="0"><table class="heats"><thead><tr><th scope="col">Class</th><th scope="col">Images</th>
      ${test.methods.map(({ row }) => html`<th scope="col"><span class="tilt"><${Dot} row=${row} /><${Name} text=${row.label} /></span></th>`)}</tr></thead>
      <tbody>${rows.map((c) => html`<${Row} key=${c} test=${test} c=${c} chosen=${c === state.cc} />`)}</tbody></table></div>${more}
    ${state.cc >= 0 && state.cc < test.classes.length && html`<${Detail} test=${test} c=${state.cc} />`}`;
}
