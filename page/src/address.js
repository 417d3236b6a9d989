// What is shown, kept in the address after '#': a link shows the same thing. `#search?q=12&m=0.2`
import { useEffect, useState } from "./html.js";

const DEFAULTS = {
  at: "", t: 0, metric: "", sort: "", cost: "seconds",
  q: -1, by: "random", c: -1, find: "", m: "", k: 10,
  map: 0, colour: "class", mark: -1,
  cm: 0, cc: -1, order: "spread", a: 0, b: 1, cell: "a",
  sm: 0, th: "", wq: -1, wm: -1,
}; // prettier-ignore
let state = read();
let timer = 0;
let shown = location.hash;
const listeners = new Set();

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // a link that was cut
  }
}

function read() {
  const [at, query = ""] = location.hash.slice(1).split("?");
  const found = { ...DEFAULTS, at: decoded(at) };
  for (const [key, text] of new URLSearchParams(query)) {
    if (!(key in DEFAULTS)) continue;
    const whole = Number.parseInt(text, 10);
    if (typeof DEFAULTS[key] !== "number") found[key] = text;
    else if (Number.isFinite(whole)) found[key] = whole;
  }
  return found;
}

function written() {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (key !== "at" && value !== DEFAULTS[key]) query.set(key, value);
  const text = query.toString();
  return `#${encodeURIComponent(state.at)}${text && `?${text}`}`;
}

export const address = () => state;

function write() {
  clearTimeout(timer);
  if (location.hash !== shown) return; // a link was followed meanwhile
  history.replaceState(null, "", written());
  shown = location.hash;
}

export function go(patch) {
  state = { ...state, ...patch };
  for (const listener of [...listeners]) listener();
  clearTimeout(timer); // browsers limit how often the address may change
  timer = setTimeout(write, 120);
}

// Go to another section or image, from where the browser's Back button returns.
export function visit(patch) {
  write();
  go(patch);
  if (written() !== location.hash) history.pushState(null, "", written());
  shown = location.hash;
}

// The state, for a component that is drawn again when one of `keys` changes.
export function useAddress(...keys) {
  const [, again] = useState(0);
  useEffect(() => {
    let seen = state;
    const listener = () => {
      const changed = keys.some((key) => seen[key] !== state[key]);
      seen = state;
      if (changed) again((count) => count + 1);
    };
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return state;
}

addEventListener("hashchange", () => {
  clearTimeout(timer);
  shown = location.hash;
  state = read();
  for (const listener of [...listeners]) listener();
});
