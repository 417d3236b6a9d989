// First thing on the screen: which method to use, what ties with it, and what speaks against trusting it.
import { html } from "./html.js";
import { page } from "./data.js";
import { Cost } from "./cost.js";
import { Leaderboard } from "./leaderboard.js";

function Cautions() {
  const missing = page.missing.map(({ row, reason }) => html`<li><strong dir="auto">${row}</strong> is missing: ${reason}</li>`);
  if (!page.cautions.length && !missing.length) return null;
  return html`<aside class="cautions" aria-labelledby="cautions-title">
    <h3 id="cautions-title">Before you trust it</h3>
    <ul>${page.cautions.map((text) => html`<li dir="auto">${text}</li>`)}${missing}</ul>
  </aside>`;
}

export function Answer() {
  const [first = "No run of this study is finished yet.", ...others] = page.answer;
  const colon = first.indexOf(": ");
  return html`<section id="answer" tabindex="-1" aria-labelledby="answer-title" class="answer">
    <h2 id="answer-title" dir="auto">${colon > 0 ? first.slice(0, colon) : first}</h2>
    ${colon > 0 && html`<p class="headline">${capital(first.slice(colon + 2))}</p>`}
    ${others.map((text) => html`<p class="said" dir="auto">${text}</p>`)}
    <${Cautions} />
    ${page.rows.length > 0 && html`<${Leaderboard} /><${Cost} />`}
  </section>`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
