// Small pieces that several sections share.
import { html, useEffect, useRef, useState } from "./html.js";
import { ofMethod } from "./colours.js";
import { useTheme } from "./theme.js";

export function Section({ id, title, lead, children }) {
  return html`<section id=${id} tabindex="-1" aria-labelledby=${`${id}-title`}>
    <h2 id=${`${id}-title`}>${title}</h2>
    ${lead && html`<p class="lead">${lead}</p>`} ${children}
  </section>`;
}

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// A name from the data: any script, direction and length.
export const Name = ({ text, class: extra = "" }) =>
  html`<bdi class=${`name ${extra}`} dir="auto" title=${text.length > 24 ? text : undefined}>${text || "(no name)"}</bdi>`;

export function Dot({ row }) {
  useTheme();
  return html`<span class="dot" style=${{ background: ofMethod(row) }} aria-hidden="true"></span>`;
}

export const Method = ({ row }) => html`<span class="method"><${Dot} row=${row} /><${Name} text=${row.label} /></span>`;

export function Choice({ label, value, options, onChange }) {
  return html`<label class="choice"><span>${label}</span>
    <select value=${String(value)} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map(([key, text]) => html`<option value=${String(key)} selected=${String(key) === String(value)}>${text}</option>`)}
    </select></label>`;
}

export const MethodChoice = ({ label = "Method", test, value, only = () => true, onChange }) =>
  html`<${Choice} label=${label} value=${value} onChange=${(text) => onChange(Number(text))}
    options=${test.methods.filter(only).map((method) => [method.index, method.label])} />`;

// A few alternatives side by side.
export function Switch({ label, value, options, onChange }) {
  return html`<div class="switch" role="group" aria-label=${label}>
    ${options.map(([key, text]) =>
      html`<button type="button" aria-pressed=${key === value} onClick=${() => onChange(key)}>${text}</button>`)}
  </div>`;
}

// A class by typing a part of its name.
export function ClassChoice({ label, test, value, onChange }) {
  const [text, setText] = useState(null);
  const [known, setKnown] = useState([]); // filled when the field is used: thousands of names take a while
  const shown = text ?? (value >= 0 ? test.classes[value] : "");
  const choose = (event) => {
    const typed = event.currentTarget.value;
    const found = test.classes.indexOf(typed);
    setText(found < 0 ? typed : null);
    if (found >= 0 || !typed) onChange(found);
  };
  const id = `classes-of-${label.replace(/\W/g, "")}`;
  useEffect(() => setText(null), [value]);
  return html`<label class="choice"><span>${label}</span>
    <input type="search" list=${id} value=${shown} placeholder="any class" dir="auto" onInput=${choose} onFocus=${() => setKnown(test.classes.slice(0, 3000))} autocomplete="off" />
    <datalist id=${id}>${known.map((name) => html`<option value=${name} />`)}</datalist></label>`;
}

// The width of an element, for drawings that fill it.
export function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

// The first of a long list, more on request.
export function useMore(items, step, key) {
  const [state, setState] = useState({ key, shown: step });
  const shown = state.key === key ? state.shown : step;
  const more = shown < items.length &&
    html`<p><button type="button" class="more" onClick=${() => setState({ key, shown: shown + step * 2 })}>Show more (${items.length - shown} left)</button></p>`;
  return [items.slice(0, shown), more];
}
