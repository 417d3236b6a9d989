// Cost against accuracy: every trained row as a point, the front that no row beats in both.
import { html } from "./html.js";
import { go, useAddress } from "./address.js";
import { Axes, linear, logTicks, logarithmic, plain, ticks } from "./chart.js";
import { ofMethod } from "./colours.js";
import { page } from "./data.js";
import { bytes, seconds, short, value } from "./format.js";
import { chosenMetric } from "./leaderboard.js";
import { Empty, Switch, useWidth } from "./pieces.js";
import { useTheme } from "./theme.js";
import { tip } from "./tips.js";

const COSTS = [
  ["seconds", "Training time", seconds],
  ["peak_bytes", "Memory", bytes],
  ["images_seen", "Images seen", short],
  ["passes", "Passes", plain],
];
const HEIGHT = 300;

// Cheapest first; each point is better than all cheaper ones.
export function front(points, higher) {
  const found = [];
  for (const point of [...points].sort((a, b) => a.x - b.x || (higher ? b.y - a.y : a.y - b.y)))
    if (!found.length || (higher ? point.y > found.at(-1).y : point.y < found.at(-1).y)) found.push(point);
  return found;
}

// Right of its point, or left, above, below: the first place where a label covers nothing.
function labels(points, width) {
  const boxes = points.map(({ px, py }) => [px - 6, py - 6, px + 6, py + 6]);
  return points.map((point) => {
    const wide = Math.min(26, point.row.label.length) * 6.6 + 4;
    const places = [[10, 4, "start"], [-10, 4, "end"], [0, -12, "middle"], [0, 20, "middle"], [10, -8, "start"], [10, 16, "start"], [-10, -8, "end"], [-10, 16, "end"]];
    const boxed = places.map(([dx, dy, anchor]) => {
      const left = point.px + dx - (anchor === "end" ? wide : anchor === "middle" ? wide / 2 : 0);
      return { dx, dy, anchor, box: [left, point.py + dy - 12, left + wide, point.py + dy + 3] };
    });
    const free = ({ box }) => box[0] > 0 && box[2] < width && !boxes.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
    const chosen = boxed.find(free);
    if (chosen) boxes.push(chosen.box);
    return chosen;
  });
}

function Drawing({ width, key_, name, show, metric }) {
  const rows = page.rows.filter((row) => row.cells[metric.name]);
  const points = rows.filter((row) => row[key_] != null && row[key_] > 0).map((row) => ({ row, x: row[key_], y: row.cells[metric.name].mean }));
  const free = rows.filter((row) => !row.trained);
  const level = free.length ? free.reduce((a, b) => (metric.higher === b.cells[metric.name].mean > a.cells[metric.name].mean ? b : a)) : null;
  const heights = [...points.map(({ y }) => y), ...(level ? [level.cells[metric.name].mean] : [])];
  const xs = points.map(({ x }) => x);
  const [least, most] = [Math.min(...xs), Math.max(...xs)];
  const wide = most / least > 8;
  const box = { left: 56, right: width - 16, top: 28, bottom: HEIGHT - 46 };
  const pad = (Math.max(...heights) - Math.min(...heights)) * 0.1 || 0.01;
  const [low, high] = [Math.min(...heights) - pad, Math.max(...heights) + pad];
  const ends = wide ? [least / 1.3, most * 1.3] : [Math.max(0, least - (most - least) * 0.15 - least * 0.05), most + (most - least) * 0.25 + most * 0.05];
  const x = (wide ? logarithmic : linear)(...ends, box.left, box.right);
  const y = linear(low, high, box.bottom, box.top);
  for (const point of points) Object.assign(point, { px: x(point.x), py: y(point.y) });
  const texts = labels(points, width);
  const steps = front(points, metric.higher).map(({ px, py }, i, all) => (i ? `H${px}V${py}` : `M${px} ${box.bottom}V${py}`) + (i === all.length - 1 ? `H${box.right}` : "")).join("");
  const base = level && y(level.cells[metric.name].mean);
  return html`<svg width=${width} height=${HEIGHT} role="group" aria-label=${`${metric.name} against ${name.toLowerCase()}`}>
    <${Axes} box=${box} x=${x} y=${y} xTicks=${wide ? logTicks(...ends) : ticks(...ends, 5)} yTicks=${ticks(low, high, 5)} xName=${name} yName=${metric.name} xText=${show} />
    ${level && html`<g class="level"><line x1=${box.left} x2=${box.right} y1=${base} y2=${base} /><text x=${box.right} y=${base - 5} text-anchor="end">without training: ${level.label.slice(0, 40)}</text></g>`}
    <path class="front" d=${steps} />
    ${points.map(({ row, px, py, x: cost, y: mean }, i) => html`<g>
      <circle class="point" cx=${px} cy=${py} r="6" fill=${ofMethod(row)} tabindex="0" role="img" aria-label=${`${row.label}: ${metric.name} ${value(mean)}, ${show(cost)}`} ...${tip(`${row.label}: ${metric.name} ${value(mean)}, ${show(cost)}`)} />
      ${texts[i] && html`<text class="label" x=${px + texts[i].dx} y=${py + texts[i].dy} text-anchor=${texts[i].anchor} aria-hidden="true">${row.label.length > 26 ? `${row.label.slice(0, 25)}…` : row.label}</text>`}</g>`)}
  </svg>`;
}

export function Cost() {
  useTheme();
  const state = useAddress("metric", "cost");
  const [ref, width] = useWidth();
  const metric = chosenMetric(state.metric);
  const possible = COSTS.filter(([key]) => page.rows.filter((row) => row[key] > 0 && row.cells[metric.name]).length > 1);
  const [key_, name, show] = possible.find(([key]) => key === state.cost) ?? possible[0] ?? [];
  return html`<div class="cost"><h3>Cost against accuracy</h3>
    ${possible.length > 1 && html`<div class="bar"><${Switch} label="Cost" value=${key_} options=${possible.map(([key, text]) => [key, text])} onChange=${(cost) => go({ cost })} /></div>`}
    <div ref=${ref} class="drawing">${possible.length > 0 && width > 0 && html`<${Drawing} width=${width} key_=${key_} name=${name} show=${show} metric=${metric} />`}</div>
    ${possible.length ? html`<p class="hint">The line is the front: a row below it is beaten in cost and in ${metric.name} by another one.</p>` : html`<${Empty}>Fewer than two rows of this study have a measured cost.<//>`}
  </div>`;
}
