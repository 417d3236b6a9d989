// Classes and mistakes: confused pairs, hubs, images that nobody finds, likely label errors, duplicates.
import { html, useMemo } from "./html.js";
import { go, useAddress } from "./address.js";
import { Classes } from "./classes.js";
import { testSet } from "./data.js";
import { count, plural } from "./format.js";
import { Gallery, Picture } from "./gallery.js";
import { Empty, MethodChoice, Name, Section, useMore } from "./pieces.js";

function Pairs({ test, method }) {
  const [shown, more] = useMore(method.takenFor, 6, method.index);
  if (!method.takenFor.length) return html`<${Empty}>${method.label} takes no class for another one.<//>`;
  return html`<ul class="pairs">${shown.map(([own, other, times]) => html`<li key=${`${own}-${other}`}>
      <div class="strip">${test.members[own].slice(0, 3).map((i) => html`<${Picture} test=${test} i=${i} size=${48} />`)}</div>
      <span class="between" aria-hidden="true">→</span>
      <div class="strip">${test.members[other].slice(0, 3).map((i) => html`<${Picture} test=${test} i=${i} size=${48} />`)}</div>
      <p><button type="button" class="link" onClick=${() => go({ cc: own })}><${Name} text=${test.classes[own]} /></button> taken for <${Name} text=${test.classes[other]} /> ${plural(times, "time")}</p></li>`)}</ul>${more}`;
}

function Hubs({ test, method }) {
  const { foundBy } = method;
  const many = useMemo(() => {
    const order = Array.from(foundBy, (times, i) => [times, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    return order.slice(0, 200).filter(([times]) => times > 0).map(([, i]) => i);
  }, [method]);
  const none = useMemo(() => {
    const held = test.raw.gallery ? (i) => test.galleryOf[i] === 1 : () => true;
    return Array.from(foundBy.keys()).filter((i) => foundBy[i] === 0 && held(i));
  }, [method]);
  const mean = foundBy.reduce((a, b) => a + b, 0) / Math.max(1, foundBy.length);
  return html`<h3>Hubs</h3><p class="hint">Images that are among the ${method.k} nearest of very many queries. The mean is ${count(Math.round(mean))}; the number is how many queries find the image.</p>
    <${Gallery} test=${test} images=${many} step=${12} id=${`hub${method.index}`} note=${(i) => `×${count(foundBy[i])}`} />
    <h3>Images that nobody finds</h3>
    ${none.length ? html`<p class="hint">${plural(none.length, "image")} ${none.length === 1 ? "is" : "are"} among the ${method.k} nearest of no query.</p><${Gallery} test=${test} images=${none} step=${12} id=${`none${method.index}`} />`
      : html`<${Empty}>Every image is among the ${method.k} nearest of some query.<//>`}`;
}

function Labels({ test }) {
  const { labels } = test.mistakes;
  const [shown, more] = useMore(labels, 12, "labels");
  return html`<h3>Likely label errors</h3>
    ${labels.length ? html`<p class="hint">The neighbours of these images agree on another class, for most methods.</p>
      <ul class="cards">${shown.map(({ image, says, votes, of }) => html`<li key=${image}><${Picture} test=${test} i=${image} size=${64} /><div>
        <span>labelled <${Name} text=${test.className(image)} /></span><span>neighbours say <strong><${Name} text=${test.classes[says]} /></strong></span><span class="hint">${votes} of ${plural(of, "method")}</span></div></li>`)}</ul>${more}`
      : html`<${Empty}>No image has neighbours that agree on another class.<//>`}`;
}

function Duplicates({ test }) {
  const { duplicates } = test.mistakes;
  const [shown, more] = useMore(duplicates, 12, "duplicates");
  return html`<h3>Duplicates</h3>
    ${duplicates.length ? html`<ul class="cards">${shown.map(({ first, second, text }) => html`<li key=${`${first}-${second}`}><${Picture} test=${test} i=${first} size=${64} /><${Picture} test=${test} i=${second} size=${64} /><div>
        <${Name} text=${test.className(first)} />${test.classOf[first] !== test.classOf[second] && html`<${Name} text=${test.className(second)} />`}<span class="hint">${text}</span></div></li>`)}</ul>${more}`
      : html`<${Empty}>No duplicates were found, or the study did not search for them.<//>`}`;
}

function Leaks({ test }) {
  const leaks = test.mistakes.leaks ?? [];
  const texts = new Map(leaks.map(({ image, text }) => [image, text]));
  if (!leaks.length) return null;
  return html`<h3>Images that are in the training part, too</h3><p class="hint">A method may have learned these by heart.</p>
    <${Gallery} test=${test} images=${[...texts.keys()]} step=${12} id="leaks" note=${(i) => texts.get(i)} />`;
}

export function Mistakes() {
  const { t, cm } = useAddress("t", "cm");
  const test = testSet(t);
  if (!test?.methods.length) return html`<${Section} id="mistakes" title="Classes and mistakes"><${Empty}>No run of this study has stored embeddings, so mistakes cannot be shown.<//><//>`;
  const method = test.methods[cm] ?? test.methods[0];
  return html`<${Section} id="mistakes" title="Classes and mistakes">
    <${Classes} test=${test} key=${t} />
    <div class="bar rule"><${MethodChoice} label="Mistakes of" test=${test} value=${method.index} onChange=${(next) => go({ cm: next })} /></div>
    <h3>Most confused classes</h3><${Pairs} test=${test} method=${method} />
    <${Hubs} test=${test} method=${method} />
    <${Labels} test=${test} /><${Duplicates} test=${test} /><${Leaks} test=${test} /><//>`;
}
