// The few things that our drawings need: scales, ticks, axes.
import { html } from "./html.js";

export function linear(low, high, start, end) {
  const span = high - low || 1;
  return (value) => start + ((value - low) / span) * (end - start);
}

export const logarithmic = (low, high, start, end) => {
  const inner = linear(Math.log(low), Math.log(high), start, end);
  return (value) => inner(Math.log(value));
};

export function ticks(low, high, about = 5) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

export function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of [1, 2, 5]) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  return found.length > 7 ? found.filter((at) => /^1/.test(at.toExponential())) : found;
}

export const plain = (number) => String(Number(number.toPrecision(6)));

// Grid lines with numbers, and the names of both axes. `box`: {left, right, top, bottom} in pixels.
export function Axes({ box, x, y, xTicks, yTicks, xName, yName, xText = plain, yText = plain }) {
  return html`<g class="axes" aria-hidden="true">
    ${yTicks.map((tick) => html`<g><line x1=${box.left} x2=${box.right} y1=${y(tick)} y2=${y(tick)} />
      <text x=${box.left - 8} y=${y(tick)} text-anchor="end" dominant-baseline="central">${yText(tick)}</text></g>`)}
    ${xTicks.map((tick) => html`<g><line x1=${x(tick)} x2=${x(tick)} y1=${box.bottom} y2=${box.bottom + 4} />
      <text x=${x(tick)} y=${box.bottom + 18} text-anchor="middle">${xText(tick)}</text></g>`)}
    ${xName && html`<text class="axis" x=${(box.left + box.right) / 2} y=${box.bottom + 36} text-anchor="middle">${xName}</text>`}
    ${yName && html`<text class="axis" x=${box.left - 44} y=${box.top - 12}>${yName}</text>`}
  </g>`;
}

export const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
