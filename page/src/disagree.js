// Where two methods disagree: how many queries each alone gets right, the test between them, the queries.
import { html, useMemo } from "./html.js";
import { go, useAddress } from "./address.js";
import { page, testSet } from "./data.js";
import { count, percent, signed } from "./format.js";
import { Gallery } from "./gallery.js";
import { Empty, Method, MethodChoice, Name, Section } from "./pieces.js";

function cells(first, second) {
  const found = { both: [], a: [], b: [], neither: [] };
  first.right.forEach((right, i) => {
    const other = second.right[i];
    if (right < 2 && other < 2) found[right ? (other ? "both" : "a") : other ? "b" : "neither"].push(i);
  });
  return found;
}

// The comparison of two rows with the first one first, or null.
function tested(a, b) {
  const found = page.comparisons.find(({ first, second }) => (first === a && second === b) || (first === b && second === a));
  if (!found) return null;
  if (found.first === a) return found;
  const turned = { first: "second", second: "first" };
  return { ...found, difference: -found.difference, low: found.high == null ? null : -found.high, high: found.low == null ? null : -found.low, better: turned[found.better] ?? null };
}

function Verdict({ first, second }) {
  const found = tested(first.raw.row, second.raw.row);
  if (!found) return html`<p class="verdict">The study did not test these two against each other.</p>`;
  const winner = found.better === "first" ? first : second;
  const said = found.better ? html`<strong><${Name} text=${winner.label} /> is better.</strong>` : html`<strong>The two cannot be told apart.</strong>`;
  const range = found.low == null ? "" : ` (95 % ${signed(found.low)} to ${signed(found.high)})`;
  return html`<p class="verdict">${said} ${page.metrics[0].name}: <${Name} text=${first.label} /> ${signed(found.difference)}${range}${found.p == null ? "" : `, p ${found.p < 0.001 ? "< 0.001" : `= ${found.p.toFixed(3)}`}`}. <span class="hint">${page.comparison_note}</span></p>`;
}

function Square({ first, second, found, total, cell }) {
  const one = (key, name) => html`<td><button type="button" class=${`cell ${key}`} aria-pressed=${cell === key} onClick=${() => go({ cell: key })}>
    <strong>${count(found[key].length)}</strong><span>${name}</span><span class="hint">${percent(found[key].length / Math.max(1, total))}</span></button></td>`;
  return html`<table class="square"><caption class="hidden">Queries whose nearest image is right</caption>
    <thead><tr><td></td><th scope="col"><${Method} row=${second.row} /><br />right</th><th scope="col"><${Method} row=${second.row} /><br />wrong</th></tr></thead>
    <tbody><tr><th scope="row"><${Method} row=${first.row} /><br />right</th>${one("both", "both right")}${one("a", "only the first")}</tr>
      <tr><th scope="row"><${Method} row=${first.row} /><br />wrong</th>${one("b", "only the second")}${one("neither", "both wrong")}</tr></tbody></table>`;
}

function Two({ test }) {
  const state = useAddress("a", "b", "cell");
  const first = test.methods[state.a] ?? test.methods[0];
  const second = test.methods[state.b] && state.b !== first.index ? test.methods[state.b] : test.methods.find(({ index }) => index !== first.index);
  const found = useMemo(() => cells(first, second), [first, second]);
  const total = Object.values(found).reduce((sum, list) => sum + list.length, 0);
  const cell = found[state.cell] ? state.cell : "a";
  return html`<div class="bar"><${MethodChoice} label="First" test=${test} value=${first.index} onChange=${(a) => go({ a })} />
      <${MethodChoice} label="Second" test=${test} value=${second.index} only=${({ index }) => index !== first.index} onChange=${(b) => go({ b })} /></div>
    <${Verdict} first=${first} second=${second} />
    <div class="beside"><${Square} first=${first} second=${second} found=${found} total=${total} cell=${cell} />
      <div><p class="caption">${count(found[cell].length)} of ${count(total)} queries: ${{ both: "both right", a: "only the first is right", b: "only the second is right", neither: "both wrong" }[cell]}. Click one to see the results of both.</p>
        ${found[cell].length ? html`<${Gallery} test=${test} images=${found[cell]} id=${`${first.index}-${second.index}-${cell}`} more=${{ m: [first.index, second.index].sort((x, y) => x - y).join(".") }} />` : html`<${Empty}>No query.<//>`}</div></div>`;
}

export function Disagree() {
  const { t } = useAddress("t");
  const test = testSet(t);
  return html`<${Section} id="disagree" title="Where methods disagree" lead="Two methods with the same recall can be right about different images.">
    ${test?.methods.length > 1 ? html`<${Two} test=${test} key=${t} />` : html`<${Empty}>It takes two methods with stored embeddings on the same test images, and this study has ${test?.methods.length ?? 0}.<//>`}<//>`;
}
