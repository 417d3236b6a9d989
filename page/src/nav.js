// The header with the study's name, and the sticky navigation that shows where one is.
import { html, useEffect, useState } from "./html.js";
import { address, go, useAddress, visit } from "./address.js";
import { page } from "./data.js";
import { Choice, Name } from "./pieces.js";
import { reveal } from "./reveal.js";
import { switchTheme, useTheme } from "./theme.js";

export const SECTIONS = [
  ["answer", "Answer"], ["search", "Search"], ["map", "Map"], ["mistakes", "Mistakes"], ["disagree", "Disagreement"],
  ["same", "Same or not"], ["why", "Why"], ["training", "Training"], ["tables", "Tables"],
]; // prettier-ignore

// The section whose top passed a third of the screen last.
function useReading() {
  const [at, setAt] = useState("answer");
  useEffect(() => {
    const look = () => {
      const end = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
      const passed = SECTIONS.filter(([id]) => { const section = document.getElementById(id); return section && section.getBoundingClientRect().top < innerHeight / 3; });
      setAt(end && scrollY > 0 ? SECTIONS.at(-1)[0] : passed.at(-1)?.[0] ?? "answer");
    };
    addEventListener("scroll", look, { passive: true });
    look();
    return () => removeEventListener("scroll", look);
  }, []);
  return at;
}

export function Header() {
  return html`<header class="top"><div><h1 dir="auto"><${Name} text=${page.study} /></h1>${page.about && html`<p class="hint" dir="auto">${page.about}</p>`}</div></header>`;
}

export function Navigation() {
  const { t } = useAddress("t");
  const theme = useTheme();
  const at = useReading();
  useEffect(() => {
    const link = document.querySelector(`nav a[aria-current]`);
    const list = link?.closest("ul");
    if (list) list.scrollLeft = link.offsetLeft - list.clientWidth / 2 + link.offsetWidth / 2;
  }, [at]);
  const open = (id) => (event) => { event.preventDefault(); visit({ at: id }); reveal(id); };
  return html`<nav aria-label="Sections"><ul>${SECTIONS.map(([id, name]) => html`<li><a href=${`#${id}`} aria-current=${at === id ? "location" : undefined} onClick=${open(id)}>${name}</a></li>`)}</ul>
    ${page.tests.length > 1 && html`<${Choice} label="Test images" value=${t} options=${page.tests.map(({ name }, i) => [i, name])} onChange=${(next) => go({ t: Number(next), q: -1, c: -1, cc: -1, mark: -1, m: "", map: 0, cm: 0, a: 0, b: 1, sm: 0, th: "", wq: -1, wm: -1 })} />`}
    <button type="button" class="theme" onClick=${switchTheme} aria-label=${theme === "dark" ? "Light colours" : "Dark colours"} title=${theme === "dark" ? "Light colours" : "Dark colours"}>${theme === "dark" ? "☀" : "☾"}</button></nav>`;
}

export const startingSection = () => (SECTIONS.some(([id]) => id === address().at) ? address().at : "");
