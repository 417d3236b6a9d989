// Live only: search with a photo that the reader drops here or chooses.
import { html, useEffect, useRef, useState } from "./html.js";
import { page } from "./data.js";
import { value } from "./format.js";
import { Picture } from "./gallery.js";
import { Empty, MethodChoice } from "./pieces.js";
import { searched } from "./neighbours.js";

export function Photo({ test }) {
  const able = test.methods.filter(({ raw }) => page.live.runs.includes(raw.row));
  const [m, setMethod] = useState(able[0]?.index ?? -1);
  const [file, setFile] = useState(null);
  const [found, setFound] = useState(null);
  const [over, setOver] = useState(false);
  const picture = useRef(null);
  useEffect(() => {
    if (!file || m < 0) return undefined;
    let current = true;
    const address = URL.createObjectURL(file);
    picture.current.src = address;
    setFound(null);
    const put = (result) => current && setFound(result);
    searched(test, test.methods[m], file).then(put, (error) => put({ reason: error.message }));
    return () => { current = false; URL.revokeObjectURL(address); };
  }, [file, m]);
  if (!able.length) return html`<${Empty}>No run of this study has a model that can embed your own photo.<//>`;
  const drop = (event) => { event.preventDefault(); setOver(false); if (event.dataTransfer.files[0]) setFile(event.dataTransfer.files[0]); };
  return html`<div class=${`photo ${over ? "over" : ""}`} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <div class="bar"><label class="file">Search with your own photo<input type="file" accept="image/*" onChange=${(event) => event.currentTarget.files[0] && setFile(event.currentTarget.files[0])} /></label>
      <span class="hint">or drop it here; it stays on this computer</span>
      <${MethodChoice} test=${test} value=${m} only=${(method) => able.includes(method)} onChange=${setMethod} /></div>
    <div class="results" hidden=${!file}><div class="query"><img ref=${picture} class="thumb own" alt="Your photo" width="128" height="128" /></div>
      <div class="rankings" aria-live="polite">${found?.list ? html`<${Found} test=${test} found=${found} />` : html`<${Empty}>${found?.reason ?? "Searching …"}<//>`}</div></div>
  </div>`;
}

function Found({ test, found }) {
  const words = ({ similarity, same }) => `${value(similarity)}${same === null ? "" : same ? " same" : " other"}`;
  return html`<ol class="strip">${found.list.slice(0, 20).map((one) => html`<li key=${one.image}><${Picture} test=${test} i=${one.image} size=${72} full=${true} note=${words(one)} /><span class="caption" dir="auto">${test.className(one.image)}</span></li>`)}</ol>
    <p class="hint">${found.threshold == null ? "This run has no threshold, so it cannot say which are the same." : `The same class from a similarity of ${value(found.threshold)}.`}</p>`;
}
