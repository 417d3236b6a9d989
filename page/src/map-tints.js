// Colours of the map's points: by class, right or wrong, or group; chosen points stay, others fade.
import { NEITHER, RIGHT, WRONG, css, ofNumber } from "./colours.js";

export const tintOf = (test, method, by) => {
  if (by === "right") { const { right } = method; return (i) => [RIGHT, WRONG][1 - right[i]] ?? NEITHER; }
  const [numbers, many] = by === "group" ? [test.groupOf, test.groups.length] : [test.classOf, test.classes.length];
  const palette = Array.from({ length: many }, (_, number) => ofNumber(number, many));
  return (i) => palette[numbers[i]];
};

export function tints(test, tint, kept) {
  const found = new Uint8Array(test.count * 4);
  const solid = test.count > 20000 ? 170 : 210;
  for (let i = 0; i < test.count; i++) {
    found.set(tint(i), 4 * i);
    found[4 * i + 3] = !kept || kept.has(i) ? solid : 22;
  }
  return found;
}

export function legend(test, by) {
  if (by === "right") return [["nearest image is right", css(RIGHT)], ["wrong", css(WRONG)], ["not a query", css(NEITHER)]];
  const names = by === "group" ? test.groups : test.classes;
  return names.length <= 10 ? names.map((name, i) => [name, css(ofNumber(i, names.length))]) : [];
}
