// Light or dark: the system's choice until the reader chooses.
import { useEffect, useState } from "./html.js";

const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let chosen = null;

function apply() {
  document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
  for (const listener of [...listeners]) listener();
}

export function switchTheme() {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  apply();
}

export function useTheme() {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return document.documentElement.dataset.theme;
}

system.addEventListener("change", apply);
apply();

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
