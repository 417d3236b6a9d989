// The whole page. The answer is drawn first; the other sections follow one by one, so that it is on the screen at once.
import { html, render, useEffect, useState } from "./html.js";
import { Answer } from "./answer.js";
import { page } from "./data.js";
import { Disagree } from "./disagree.js";
import { Map_ } from "./map.js";
import { Mistakes } from "./mistakes.js";
import { Header, Navigation, startingSection } from "./nav.js";
import { reveal } from "./reveal.js";
import { Same } from "./same.js";
import { Search } from "./search.js";
import { Tables } from "./tables.js";
import { Training } from "./training.js";
import { Why } from "./why.js";

const LATER = [Search, Map_, Mistakes, Disagree, Same, Why, Training, Tables];

function Page() {
  const [ready, setReady] = useState(0);
  useEffect(() => {
    if (ready < LATER.length) {
      const timer = setTimeout(() => requestAnimationFrame(() => setReady(ready + 1)));
      return () => clearTimeout(timer);
    }
    document.documentElement.dataset.ready = "true";
    if (startingSection()) reveal(startingSection());
    return undefined;
  }, [ready]);
  return html`<a class="skip" href="#answer" onClick=${(event) => { event.preventDefault(); reveal("answer"); }}>Skip to the answer</a>
    <${Header} /><${Navigation} />
    <main><${Answer} />${LATER.slice(0, ready).map((Part) => html`<${Part} />`)}</main>
    <footer><p class="hint">Made by levelfield ${page.levelfield}. This page asks nothing of the network${page.live ? " except the server that shows it" : ""}.</p></footer>`;
}

addEventListener("hashchange", () => startingSection() && reveal(startingSection()));
document.title = `${page.study} – levelfield`;
const root = document.getElementById("page");
root.textContent = "";
render(html`<${Page} />`, root);
