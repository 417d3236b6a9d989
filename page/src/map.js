// The map of the test embeddings.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { go, useAddress } from "./address.js";
import { testSet } from "./data.js";
import { count, plural } from "./format.js";
import { Gallery, ask } from "./gallery.js";
import { Scene } from "./map-scene.js";
import { legend } from "./map-tints.js";
import { Choice, ClassChoice, Empty, MethodChoice, Name, Section } from "./pieces.js";
import { useTheme } from "./theme.js";
import { Thumb } from "./thumbs.js";

function Card({ test, method, shown }) {
  if (!shown || shown.i < 0) return null;
  const { i, left, top, width } = shown;
  const state = ["nearest image is wrong ✗", "nearest image is right ✓"][method.right[i]];
  const place = { left: `${Math.max(4, Math.min(width - 190, left + 14))}px`, top: `${top + 14}px` };
  return html`<div class="card" style=${place}><${Thumb} test=${test} i=${i} size=${64} /><div><${Name} text=${test.className(i)} />
    ${test.groupOf && html`<span class="hint"><${Name} text=${test.groups[test.groupOf[i]]} /></span>`}<span class="hint">${state}</span></div></div>`;
}

function Legend({ test, by }) {
  useTheme();
  const items = legend(test, by);
  if (!items.length) return html`<p class="hint">Each colour is a class, ${count(test.classes.length)} in all. Point at one to see its image and the others of its class.</p>`;
  return html`<ul class="legend">${items.map(([name, colour]) => html`<li><span class="dot" style=${{ background: colour }}></span><${Name} text=${name} /></li>`)}</ul>`;
}

// Whether the map came near the screen: until then its graphics cost nothing.
function useNear() {
  const ref = useRef(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) { setNear(true); watch.disconnect(); } }, { rootMargin: "400px" });
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, near];
}

function Canvas({ test, method, by, kept, lassoing, onChosen, scene }) {
  const below = useRef(null);
  const above = useRef(null);
  const latest = useRef({});
  const [shown, setShown] = useState(null);
  const [flat, setFlat] = useState("");
  const theme = useTheme();
  latest.current = { lassoing, onChosen };
  useEffect(() => {
    const made = new Scene(below.current, above.current, {
      lassoing: () => latest.current.lassoing,
      chosen: (images) => latest.current.onChosen(images),
      hover: (i, left, top) => setShown({ i, left, top, width: above.current?.clientWidth ?? 0 }),
    });
    scene.current = made;
    setFlat(made.flat ?? "");
    return () => made.free();
  }, []);
  useEffect(() => scene.current.move(test, method), [test, method]);
  useEffect(() => scene.current.paint(method, by, kept), [test, method, by, kept, theme]);
  const i = shown?.i ?? -1;
  return html`<canvas ref=${below} aria-hidden="true"></canvas>
    <canvas ref=${above} tabindex="0" role="img" class=${lassoing ? "lassoing" : ""} onDblClick=${() => i >= 0 && ask(i)}
      aria-label=${`Map of ${count(test.count)} images by ${method.label}. Arrow keys move it, plus and minus zoom, 0 resets. The class field below chooses images without a pointer.`}></canvas>
    <${Card} test=${test} method=${method} shown=${shown} />
    ${flat && html`<p class="flat">${flat} The map is drawn without it and moves more slowly.</p>`}`;
}

function Drawn({ test }) {
  const state = useAddress("map", "colour", "mark");
  const scene = useRef(null);
  const [ref, near] = useNear();
  const [lassoing, setLassoing] = useState(false);
  const [chosen, setChosen] = useState(null);
  const able = test.methods.filter(({ raw }) => raw.map);
  const method = able.find(({ index }) => index === state.map) ?? able[0];
  const by = state.colour === "group" && !test.groups ? "class" : state.colour;
  const images = chosen ?? (state.mark >= 0 ? test.members[state.mark] : null);
  const kept = useMemo(() => (images ? new Set(images) : null), [images]);
  const clear = () => { setChosen(null); go({ mark: -1 }); };
  const colours = [["class", "Class"], ["right", "Right or wrong"], ...(test.groups ? [["group", "Group"]] : [])];
  return html`<div class="bar">
      <${MethodChoice} test=${test} value=${method.index} only=${(one) => able.includes(one)} onChange=${(map) => go({ map })} />
      <${Choice} label="Colour" value=${by} options=${colours} onChange=${(colour) => go({ colour })} />
      <${ClassChoice} label="Only class" test=${test} value=${state.mark} onChange=${(mark) => { setChosen(null); go({ mark }); }} />
      <div class="pager"><button type="button" aria-pressed=${lassoing} onClick=${() => setLassoing(!lassoing)} title="Draw a loop around images (or hold Shift)">Lasso</button>
        <button type="button" onClick=${() => scene.current?.zoom(1.6)} aria-label="Zoom in">+</button>
        <button type="button" onClick=${() => scene.current?.zoom(1 / 1.6)} aria-label="Zoom out">−</button>
        <button type="button" onClick=${() => { scene.current?.reset(); clear(); }}>Reset</button></div>
    </div>
    <div class="mapped"><div class="map" ref=${ref}>${near && html`<${Canvas} test=${test} method=${method} by=${by} kept=${kept} lassoing=${lassoing} scene=${scene} onChosen=${(found) => { setChosen(found.length ? found : null); setLassoing(false); }} />`}</div>
    <aside class="panel" aria-label="Chosen images and colours" aria-live="polite">${images
      ? html`<div class="chosen"><h3>${plural(images.length, "chosen image")}</h3><button type="button" class="more" onClick=${clear}>Clear</button></div><${Gallery} test=${test} images=${images} size=${56} id="map" />`
      : html`<${Legend} test=${test} by=${by} /><p class="hint">Drag to move, turn the wheel or pinch to zoom: images appear. Draw a loop with Lasso to see what is in it. Double-click a point to search with its image.</p>`}</aside></div>`;
}

export function Map_() {
  const { t } = useAddress("t");
  const test = testSet(t);
  const lead = "Images that a method finds similar are near each other. Switch the method and the points move to their new places.";
  const reason = !test?.methods.length ? "No run of this study has stored embeddings, so there is no map." : "No map was computed for this study.";
  return html`<${Section} id="map" title="Map" lead=${lead}>
    ${test?.methods.some(({ raw }) => raw.map) ? html`<${Drawn} test=${test} key=${t} />` : html`<${Empty}>${reason}<//>`}<//>`;
}
