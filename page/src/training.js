// Training curves: loss, spread, rho and validation of every run.
import { html, useState } from "./html.js";
import { Axes, linear, path, plain, ticks } from "./chart.js";
import { ofMethod } from "./colours.js";
import { page } from "./data.js";
import { Dot, Empty, Name, Section, useWidth } from "./pieces.js";
import { useTheme } from "./theme.js";

const KINDS = [
  ["loss", "Loss", "Each method has its own scale: compare shapes, not heights."],
  ["validation", "Validation", "The metric on the validation classes; a dot marks the chosen step."],
  ["spread", "Spread", "Distances between classes relative to those within."],
  ["rho", "Spectral decay (rho)", "How unevenly the embedding uses its directions."],
];
const HEIGHT = 230;

function Curves({ kind, name, text, hidden }) {
  const [ref, width] = useWidth();
  const runs = page.curves.filter((curve) => curve[kind].length && !hidden.has(curve.row));
  const all = runs.flatMap((curve) => curve[kind]).filter(([, one]) => Number.isFinite(one));
  const [low, high] = [Math.min(...all.map(([, one]) => one)), Math.max(...all.map(([, one]) => one))];
  const box = { left: 56, right: width - 10, top: 12, bottom: HEIGHT - 46 };
  const last = Math.max(...all.map(([step]) => step));
  const x = linear(0, last, box.left, box.right);
  const y = linear(low, high, box.bottom, box.top);
  const dot = (curve) => curve.validation.find(([step]) => step === curve.chosen_step);
  return html`<figure class="curves"><figcaption><strong>${name}</strong> <span class="hint">${text}</span></figcaption><div ref=${ref}>
    ${width > 0 && all.length > 0 && html`<svg width=${width} height=${HEIGHT} role="img" aria-label=${`${name} by step`}>
      <${Axes} box=${box} x=${x} y=${y} xTicks=${ticks(0, last, 5)} yTicks=${ticks(low, high, 4)} xName="step" yText=${plain} />
      ${runs.map((curve) => html`<path key=${`${curve.row}-${curve.seed}`} class="run" d=${path(curve[kind].filter(([, one]) => Number.isFinite(one)).map(([step, one]) => [x(step), y(one)]))} stroke=${ofMethod(page.rows[curve.row])} />`)}
      ${kind === "validation" && runs.filter(dot).map((curve) => html`<circle cx=${x(dot(curve)[0])} cy=${y(dot(curve)[1])} r="3.5" fill=${ofMethod(page.rows[curve.row])} />`)}</svg>`}</div></figure>`;
}

export function Training() {
  useTheme();
  const [hidden, setHidden] = useState(new Set());
  const rows = [...new Set(page.curves.map(({ row }) => row))].sort((a, b) => a - b);
  const kinds = KINDS.filter(([kind]) => page.curves.some((curve) => curve[kind].length));
  const toggle = (row) => { const next = new Set(hidden); if (!next.delete(row)) next.add(row); setHidden(next); };
  return html`<${Section} id="training" title="Training" lead=${kinds.length ? "One line per run." : null}>
    ${kinds.length ? html`<div class="chips" role="group" aria-label="Methods">${rows.map((row) => html`<button type="button" class="chip" aria-pressed=${!hidden.has(row)} onClick=${() => toggle(row)}><${Dot} row=${page.rows[row]} /><${Name} text=${page.rows[row].label} /></button>`)}</div>
      <div class="small">${kinds.map(([kind, name, text]) => html`<${Curves} key=${kind} kind=${kind} name=${name} text=${text} hidden=${hidden} />`)}</div>`
      : html`<${Empty}>No run of this study has a training log: nothing was trained.<//>`}<//>`;
}
