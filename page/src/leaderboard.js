// The leaderboard: interval whiskers, groups that cannot be told apart, deviations, sorting, a switch of the metric.
import { html, useMemo } from "./html.js";
import { go, useAddress } from "./address.js";
import { linear, plain, ticks } from "./chart.js";
import { ofMethod } from "./colours.js";
import { page } from "./data.js";
import { bytes, count, seconds, short, value } from "./format.js";
import { Method, Switch } from "./pieces.js";
import { useTheme } from "./theme.js";
import { tip } from "./tips.js";

const WIDTH = 230;

export const chosenMetric = (name) => page.metrics.find((metric) => metric.name === name) ?? page.metrics[0];

const COLUMNS = [
  { key: "method", name: "Method", of: (row) => row.label.toLowerCase(), down: false },
  { key: "value", name: "", of: (row, metric) => row.cells[metric.name]?.mean, down: true },
  { key: "interval", name: "", of: null },
  { key: "group", name: "Group", of: (row) => row.group, down: false, text: "Rows that share a letter cannot be told apart in the first metric." },
  { key: "sd", name: "sd", of: (row, metric) => row.cells[metric.name]?.sd, down: false, show: (value_) => value(value_), text: "Standard deviation over seeds." },
  { key: "dim", name: "Dim", of: (row) => row.dim, down: false, show: count, text: "Numbers in an embedding." },
  { key: "seconds", name: "Time", of: (row) => row.seconds, down: false, show: seconds, text: "Training time of a run." },
  { key: "images_seen", name: "Images", of: (row) => row.images_seen, down: false, show: short, text: "Images seen in training." },
  { key: "peak_bytes", name: "Memory", of: (row) => row.peak_bytes, down: false, show: bytes, text: "Peak memory of a run." },
  { key: "deviations", name: "Deviations", of: (row) => row.deviations.length, down: false, text: "Where a method was not treated like the others." },
];

const present = (column) => !["group", "dim", "seconds", "images_seen", "peak_bytes"].includes(column.key) || page.rows.some((row) => column.of(row) != null && column.of(row) !== "");

function sorted(sort, metric) {
  const rows = page.rows.map((row, index) => ({ row, index }));
  const [key, way] = (sort || "value.0").split(".");
  const column = COLUMNS.find((one) => one.key === key && one.of) ?? COLUMNS[1];
  const up = (column.key === "value" ? metric.higher === false : !column.down) !== (way === "1");
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
  return rows.sort((a, b) => {
    const [first, second] = [column.of(a.row, metric), column.of(b.row, metric)];
    if (first == null || second == null) return (first == null) - (second == null) || a.index - b.index;
    return order(first, second) || a.index - b.index;
  });
}

function Head({ column, metric, sort }) {
  const [key, way] = (sort || "value.0").split(".");
  const name = column.key === "value" ? metric.name : column.key === "interval" ? "95 % interval" : column.name;
  if (!column.of) return html`<th scope="col" class=${column.key}>${name}</th>`;
  const on = key === column.key;
  const ascending = (column.key === "value" ? metric.higher === false : !column.down) !== (way === "1");
  const next = on && way !== "1" ? `${column.key}.1` : `${column.key}.0`;
  return html`<th scope="col" class=${column.key} aria-sort=${on ? (ascending ? "ascending" : "descending") : undefined}>
    <button type="button" title=${column.text} onClick=${() => go({ sort: next === "value.0" ? "" : next })}>
      ${name}<span class="arrow" aria-hidden="true">${on ? (ascending ? "▲" : "▼") : ""}</span></button></th>`;
}

function Whisker({ cell, x, row }) {
  if (!cell) return null;
  const known = cell.low != null && cell.high != null;
  const colour = ofMethod(row);
  const words = known ? `95 % interval ${value(cell.low)} to ${value(cell.high)}` : "no interval";
  return html`<svg width=${WIDTH} height="22" role="img" aria-label=${words}><title>${words}</title>
    ${x.ticks.map((tick) => html`<line class="grid" x1=${x(tick)} x2=${x(tick)} y1="0" y2="22" />`)}
    ${known && html`<g stroke=${colour} stroke-width="2"><line x1=${x(cell.low)} x2=${x(cell.high)} y1="11" y2="11" />
      <line x1=${x(cell.low)} x2=${x(cell.low)} y1="7" y2="15" /><line x1=${x(cell.high)} x2=${x(cell.high)} y1="7" y2="15" /></g>`}
    <circle cx=${x(cell.mean)} cy="11" r="4.5" fill=${colour} /></svg>`;
}

function Deviations({ row }) {
  if (!row.deviations.length) return html`<span class="none">–</span>`;
  return row.deviations.map(({ key, text }) =>
    html`<button type="button" class="deviation" aria-label=${`Deviation ${key}: ${text}`} ...${tip(text)}>${key}</button>`);
}

function Cell({ column, row, metric, x, tied }) {
  const cell = row.cells[metric.name];
  if (column.key === "method") return html`<th scope="row" class="method"><${Method} row=${row} /></th>`;
  if (column.key === "value") return html`<td class="value">${value(cell?.mean)}</td>`;
  if (column.key === "interval") return html`<td class="interval"><${Whisker} cell=${cell} x=${x} row=${row} /></td>`;
  if (column.key === "group") return html`<td class="group">${[...row.group].map((letter) => html`<span class=${tied.has(letter) ? "best" : ""}>${letter}</span>`)}</td>`;
  if (column.key === "deviations") return html`<td class="deviations"><${Deviations} row=${row} /></td>`;
  return html`<td>${column.show(column.of(row, metric))}</td>`;
}

export function Leaderboard() {
  useTheme();
  const state = useAddress("metric", "sort");
  const metric = chosenMetric(state.metric);
  const columns = useMemo(() => COLUMNS.filter(present), []);
  const rows = sorted(state.sort, metric);
  const ends = page.rows.flatMap(({ cells }) => { const cell = cells[metric.name]; return cell ? [cell.low ?? cell.mean, cell.high ?? cell.mean] : []; });
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const x = linear(low, high, 12, WIDTH - 12);
  x.ticks = ticks(low, high, 4);
  const tied = new Set(page.rows[page.best]?.group ?? "");
  return html`<div class="board">
    <div class="bar">
      ${page.metrics.length > 1 && html`<${Switch} label="Metric" value=${metric.name} options=${page.metrics.map(({ name }) => [name, name])} onChange=${(name) => go({ metric: name === page.metrics[0].name ? "" : name })} />`}
      <p class="hint" dir="auto">${metric.text}</p>
    </div>
    <div class="scroll" role="region" aria-label="Leaderboard" tabindex="0">
      <table class="leaderboard"><thead><tr>${columns.map((column) => html`<${Head} column=${column} metric=${metric} sort=${state.sort} />`)}</tr></thead>
        <tbody>${rows.map(({ row, index }) => html`<tr key=${index} class=${[...row.group].some((letter) => tied.has(letter)) ? "tied" : ""}>
          ${columns.map((column) => html`<${Cell} column=${column} row=${row} metric=${metric} x=${x} tied=${tied} />`)}</tr>`)}</tbody>
        <tfoot><tr><td colspan="2"></td><td class="interval"><svg width=${WIDTH} height="14" aria-hidden="true">${x.ticks.map((tick) => html`<text x=${x(tick)} y="11" text-anchor="middle">${plain(tick)}</text>`)}</svg></td><td colspan=${columns.length - 3}></td></tr></tfoot>
      </table></div>
    ${page.comparison_note && html`<p class="hint">${page.comparison_note.replace(/\.?$/, ".")} Shaded: cannot be told apart from the best row.</p>`}
  </div>`;
}
