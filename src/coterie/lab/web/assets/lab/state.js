// What the last move has changed, and why processes wait; all that they know on demand.
import { html } from "../ui.js";
import { useEffect } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { ask, complain, cursor, fates, first, moves, place, saved, states, steps } from "./run.js";

const isWhole = signal(false); // whether all fields are shown

/** A value as the algorithm's paper would write it. */
export function show(value) {
  if (value === null) return "–";
  if (Array.isArray(value)) return value.length ? `[${value.map(show).join(", ")}]` : "[]";
  if (typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${key}: ${show(each)}`).join(", ")}}`;
  return String(value);
}

/** The state of a process before the reader's last move. */
function before(process) {
  for (let number = cursor.value - 1; number >= 0; number -= 1) {
    const state = steps.value[number]?.states.find((each) => each.process === process);
    if (state) return state;
  }
  return null;
}

const reasons = () => (fates.value?.why?.length ? fates.value.why : place.value?.why ?? []);

const membersOf = (why) => [...why.core].sort((a, b) => a - b).join(", ");

export function States() {
  return html`<section class="card states"><div class="section-line"><h2>${cursor.value === 0 ? "State at the start" : `What move ${cursor.value} has changed`}</h2>
      <button type="button" class="plain-button" aria-pressed=${isWhole.value} onClick=${() => { isWhole.value = !isWhole.value; }}>All fields</button></div>
    ${states.value.map((state) => html`<${State} key=${state.process} state=${state} why=${reasons().find((each) => each.process === state.process)} />`)}
    <${Deadlocks} /></section>`;
}

function State({ state, why }) {
  const old = before(state.process);
  const changed = cursor.value > 0 ? state.changed.filter((name) => name in state.fields) : [];
  const timers = Object.keys(state.timers);
  return html`<div class="process"><span class="who">p${state.process}</span><div>
    <span class="phase-word ${state.phase}">${state.phase}</span>
    ${changed.length > 0 && html`<div class="changes">${changed.map((name) => html`<span key=${`${cursor.value} ${name}`}>${name} ${old && html`<span class="was">${show(old.fields[name])} → </span>`}<span class="new">${show(state.fields[name])}</span></span>`)}</div>`}
    ${why && html`<p class="chain">${why.deadlock ? html`<span class="bad">in a ${why.deadlock} of ${membersOf(why)}</span>` : why.sentences.join(" · ")}</p>`}
    ${isWhole.value && html`<dl class="fields">${[...Object.entries(state.fields), ...(timers.length ? [["timers", timers]] : [])].map(([name, value]) => html`<div key=${name}><dt>${name} </dt><dd>${show(value)}</dd></div>`)}</dl>`}
  </div></div>`;
}

/** Each deadlock once: all of its members have the same reason. */
function Deadlocks() {
  const told = new Map(reasons().filter((each) => each.deadlock).map((each) => [membersOf(each), each]));
  return [...told.values()].map((each) => html`<div key=${each.core.join()} class="why"><h3 class="bad">✕ A ${each.deadlock} of ${membersOf(each)}</h3>
    <ul>${each.sentences.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ul></div>`);
}

const isCodeShown = signal(false);
const code = signal([]); // of the last move: handlers with their lines

/** The source that the last move has run, fetched while it is shown. */
export function Code() {
  useEffect(() => {
    if (!isCodeShown.value) return undefined;
    let isOld = false;
    ask("/api/code", { first: first.value, moves: moves.value, cursor: cursor.value }).then((found) => { if (!isOld) code.value = found; }, complain);
    return () => { isOld = true; };
  }, [isCodeShown.value, place.value]);
  if (saved) return null;
  return html`<details class="card code" open=${isCodeShown.value} onToggle=${(event) => { isCodeShown.value = event.currentTarget.open; }}><summary><h2>The code of this move</h2></summary>
    ${isCodeShown.value && (code.value.length === 0 ? html`<p class="quiet">${cursor.value === 0 ? "No move has been made yet." : "This move calls no handler."}</p>`
      : code.value.map((handler) => html`<figure key=${handler.name}><figcaption class="small quiet mono">${handler.name}</figcaption>
        <pre tabindex="0" aria-label="${handler.name}; lines that were executed are marked">${handler.lines.map((line) => html`<span key=${line.number} class=${line.ran ? "ran" : ""}>${line.ran ? "▸ " : "  "}${line.text}</span>`)}</pre></figure>`))}</details>`;
}

export function Properties() {
  const properties = fates.value?.properties?.length ? fates.value.properties : place.value?.properties ?? [];
  return html`<ul class="properties" aria-label="properties">${properties.map((property) => html`<li key=${property.name} class=${property.holds === false ? "bad" : ""} title=${property.text}>
    <span aria-hidden="true">${property.holds === false ? "✕" : property.holds === null ? "?" : "✓"}</span> ${property.name}${property.by_check && html`<${ByCheck} text=${property.text} />`}</li>`)}</ul>`;
}

/** What one run cannot tell: the page that looks at all of them can. */
function ByCheck({ text }) {
  if (saved) return null;
  const at = text.indexOf("Check");
  if (at < 0) return `: ${text}`;
  return html`: ${text.slice(0, at)}<a href="#/check/${encodeURIComponent(first.value)}">${text.slice(at)}</a>`;
}
