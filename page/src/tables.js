// Conditions, ledger, signatures, costs, corruptions, verdicts, published values, tuning: whatever the study has.
import { html } from "./html.js";
import { page } from "./data.js";
import { plural } from "./format.js";
import { Empty, Section } from "./pieces.js";

const numeric = (text) => /^[+−-]?[\d,.]+( ?%)?$/.test(text);

function Table({ table, open }) {
  const numbers = table.columns.map((_, i) => i > 0 && table.rows.every((row) => !row[i] || row[i] === "-" || numeric(row[i])));
  return html`<details open=${open}><summary><span>${table.title}</span> <span class="hint">${plural(table.rows.length, "row")}</span></summary>
    ${table.note && html`<p class="hint" dir="auto">${table.note}</p>`}
    <div class="scroll" role="region" aria-label=${table.title} tabindex="0"><table><thead><tr>${table.columns.map((name, i) => html`<th scope="col" class=${numbers[i] ? "number" : ""} dir="auto">${name}</th>`)}</tr></thead>
      <tbody>${table.rows.map((row) => html`<tr>${row.map((text, i) => (i ? html`<td class=${numbers[i] ? "number" : ""} dir="auto">${text}</td>` : html`<th scope="row" dir="auto">${text}</th>`))}</tr>`)}</tbody></table></div></details>`;
}

export function Tables() {
  return html`<${Section} id="tables" title="Tables">
    ${page.tables.length ? page.tables.map((table, i) => html`<${Table} key=${table.title} table=${table} open=${i === 0} />`) : html`<${Empty}>This study has no further tables.<//>`}<//>`;
}
