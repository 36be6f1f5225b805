// What stands around the diagram: the scenario, the moves, the states, the reasons.
import { download, html } from "../ui.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import {
  BOUNDS, ask, bound, branches, catalogue, complain, choose, chooseBound, cursor, effectiveBound, fates, findViolation, first, go, hidden, looked, make, makeNow, moves,
  outcome, place, problem, redo, request, saved, searching, soon, states, steps, takeBranch, undo,
} from "./run.js";

/** The first line in parts; the variant is empty if it names none. */
export function parts(line) {
  const [name, size, ...rest] = line.split(/\s+/);
  const variant = rest.find((each) => each.startsWith("variant="));
  return { name, size: Number(size) || 3, variant: variant?.slice(8) ?? "", others: rest.filter((each) => each !== variant) };
}

/** The algorithm, its size and its variant. */
export function AlgorithmFields({ first, most, onChange }) {
  const now = parts(first);
  const variants = catalogue.value.find((each) => each.name === now.name)?.variants ?? [];
  const chosen = now.variant || variants[0]?.name;
  const change = (key) => (event) => {
    const next = { ...now, [key]: event.currentTarget.value };
    if (key === "name") { next.variant = ""; next.others = []; }
    onChange([next.name, next.size, next.variant && `variant=${next.variant}`, ...next.others].filter(Boolean).join(" "));
  };
  const among = (choices, value, key) => html`<select value=${value} onChange=${change(key)}>
    ${choices.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === value}>${each.name}${each.sound === false && " (flawed)"}</option>`)}</select>`;
  return html`<label>algorithm ${among(catalogue.value, now.name, "name")}</label>
    <label>processes <input type="number" min="1" max=${most} value=${now.size} onChange=${change("size")} /></label>
    ${variants.length > 1 && html`<label>variant ${among(variants, chosen, "variant")}</label>`}`;
}

export function Scenario() {
  const entry = catalogue.value.find((each) => each.name === parts(first.value).name);
  return html`<section class="card"><h2>Scenario</h2>
    <fieldset class="form" disabled=${Boolean(saved)}><${AlgorithmFields} first=${first.value} most="9" onChange=${choose} /></fieldset>
    ${entry && html`<p class="quiet">${entry.summary}</p>`}
    ${place.value?.notes.map((note) => html`<p key=${note} class="quiet">${note}</p>`)}
  </section>`;
}

export function Bounds() {
  return html`<section class="card"><h2>What could happen</h2>
    <fieldset class="form" disabled=${Boolean(saved)}>${Object.entries(BOUNDS).map(([name, most]) => html`<label key=${name}>${name}
      <input type="number" min="0" max=${most} value=${effectiveBound.value[name]} onInput=${(event) => {
        const value = Number(event.currentTarget.value);
        if (event.currentTarget.value !== "" && value !== bound.value[name]) chooseBound(name, Math.max(0, Math.min(most, value)));
      }} /></label>`)}</fieldset>
    <p class="quiet">${searching.value ? "searching…" : fates.value?.searched.text ?? ""}</p>
    ${(!saved || saved.map) && !hidden.value && html`<p class="row"><button type="button" onClick=${() => findViolation(0)}>Find the shortest violation <kbd>f</kbd></button>
      <button type="button" onClick=${() => findViolation(cursor.value)}>From here <kbd>F</kbd></button></p>`}
  </section>`;
}

export function Branches() {
  if (branches.value.length === 0) return null;
  return html`<section class="card"><h2>Branches</h2><ul class="plain">
    ${branches.value.map((branch, i) => html`<li key=${i}><button type="button" class="link" onClick=${() => takeBranch(branch)}>${branch.moves.length} moves, to ${branch.moves.at(-1)}</button></li>`)}
  </ul></section>`;
}

export function TimeBar() {
  const all = moves.value.length;
  return html`<div class="time-bar row">
    <button type="button" aria-label="to the start" onClick=${() => go(0)}>|◂</button>
    <button type="button" aria-label="one move back" onClick=${() => go(cursor.value - 1)}>◂</button>
    <button type="button" aria-label="one move on" onClick=${() => go(cursor.value + 1)}>▸</button>
    <button type="button" aria-label="to the end" onClick=${() => go(all)}>▸|</button>
    <label class="slider"><span class="hidden-text">place in the run</span>
      <input key=${all} type="range" min="0" max=${all} value=${cursor.value} onInput=${(event) => go(Number(event.currentTarget.value))} /></label>
    <span>${cursor.value} of ${all}</span>
    <button type="button" onClick=${undo}>undo</button>
    <button type="button" onClick=${redo}>redo</button>
    <button type="button" onClick=${() => soon(runUntilQuiet)}>run until quiet <kbd>g</kbd></button>
  </div>`;
}

export function runUntilQuiet() {
  if (place.value?.enabled.some((move) => move.kind === "deliver")) makeNow("run");
}

/** The headline of a run: a word and a sentence, what could not be answered, or what is not told. */
function headline(here) {
  if (here) return html`<strong>${capital(here.word)}:</strong> ${here.text}`;
  if (hidden.value) return "Where each move leads is hidden in a challenge";
  return searching.value ? "Searching all that can follow…" : "Not judged";
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function Verdict() {
  const here = fates.value?.here;
  const blunder = fates.value?.blunder;
  if (problem.value) return html`<div class="notice bad" role="alert"><p><strong>${capital(problem.value.error)}.</strong></p>
    ${problem.value.unreachable && html`<p>The run is kept. Start the laboratory again with <code>coterie lab</code>, then make the move again.</p>`}</div>`;
  return html`<section class="verdict is-${here?.word ?? "open"}" aria-label="verdict">
    <span class="sign" aria-hidden="true">${here?.sign ?? "·"}</span>
    <div aria-live="polite"><h2 class="headline">${headline(here)}</h2>
      ${outcome.value && html`<p class="more">${outcome.value}</p>`}
      ${blunder && html`<p class="more">${capital(blunder.text)}.</p>`}</div>
    <div class="aside">${blunder && html`<button type="button" onClick=${() => go(blunder.number - 1)}>Go back to move ${blunder.number - 1}</button>`}
      <span>${searching.value ? "searching…" : fates.value?.searched.text ?? ""}</span></div>
  </section>`;
}

export function Moves() {
  const enabled = place.value?.enabled ?? [];
  const plain = enabled.filter((move) => !move.fault);
  const faults = enabled.filter((move) => move.fault);
  return html`<section class="card"><h2>Possible moves</h2>
    ${plain.length === 0 && html`<p class="quiet">${steps.value[cursor.value]?.violation ? "The run has ended with a violation." : "Nothing is left but faults."}</p>`}
    <ol class="moves">${plain.map((move, i) => html`<${Move} key=${move.text} move=${move} index=${i} />`)}</ol>
    ${faults.length > 0 && html`<details><summary>Faults (${faults.length})</summary><ul class="moves">${faults.map((move) => html`<${Move} key=${move.text} move=${move} />`)}</ul></details>`}
  </section>`;
}

function Move({ move, index }) {
  const fate = fates.value?.moves[move.text];
  return html`<li><button type="button" class="move" onClick=${() => make(move.text)}>
    ${index !== undefined && index < 9 && html`<kbd>${index + 1}</kbd>`}<span class="mono">${move.text}</span></button>
    ${fate && html`<span class="fate is-${fate.word}" title=${fate.text}>${fate.sign} ${fate.text.startsWith("outside the bound") ? fate.text : fate.word}${fate.moves ? ` in ${fate.moves}` : ""}</span>`}</li>`;
}

export function States() {
  return html`<section class="card"><h2>State after move ${cursor.value}</h2>
    ${states.value.map((state) => html`<details key=${state.process} open class="process ${state.changed.length ? "moved" : ""}">
      <summary>process ${state.process} <span class="phase-word ${state.phase}">${state.phase}</span></summary>
      <table><caption class="hidden-text">fields of process ${state.process}</caption><tbody>${Object.entries(state.fields).map(([name, value]) => html`<tr key=${name} class=${state.changed.includes(name) ? "changed" : ""}>
        <th scope="row">${name}${state.changed.includes(name) && html`<span aria-label="changed"> *</span>`}</th><td class="mono">${show(value)}</td></tr>`)}
        ${Object.keys(state.timers).length > 0 && html`<tr><th scope="row">timers</th><td class="mono">${Object.keys(state.timers).join(", ")}</td></tr>`}
      </tbody></table></details>`)}
  </section>`;
}

/** A value as the algorithm's paper would write it. */
export function show(value) {
  if (value === null) return "–";
  if (Array.isArray(value)) return value.length ? `[${value.map(show).join(", ")}]` : "[]";
  if (typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${key}: ${show(each)}`).join(", ")}}`;
  return String(value);
}

export function Reasons() {
  const why = fates.value?.why?.length ? fates.value.why : place.value?.why ?? [];
  const properties = fates.value?.properties?.length ? fates.value.properties : place.value?.properties ?? [];
  // All members of a cycle have the same reason: it is told once.
  const told = [];
  for (const each of why) {
    const same = each.deadlock && told.find((other) => other.deadlock === each.deadlock && [...other.core].sort().join() === [...each.core].sort().join());
    if (same) same.processes.push(each.process);
    else told.push({ ...each, processes: [each.process] });
  }
  return html`<section class="card"><h2>Properties</h2>
    <ul class="plain">${properties.map((property) => html`<li key=${property.name} class=${property.holds === false ? "bad" : ""}>
      ${property.holds === false ? "✕" : property.holds === null ? "?" : "✓"} ${property.name}${property.text && html`<span class="quiet"> ${property.text}</span>`}</li>`)}</ul>
    ${told.length > 0 && html`<h2>Why it waits</h2>`}
    ${told.map((each) => html`<div key=${each.process} class="why"><strong>process ${each.processes.join(", ")}${each.deadlock && html`<span class="bad"> in a ${each.deadlock}</span>`}</strong>
      <ul>${each.sentences.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ul></div>`)}
  </section>`;
}

export function Events() {
  const list = useRef(null);
  useEffect(() => { // the list follows the reader, the page does not
    const here = list.current?.querySelector("[aria-current]");
    if (here) list.current.scrollTop = Math.max(0, here.offsetTop - list.current.offsetTop - list.current.clientHeight / 2);
  });
  return html`<section class="card"><h2>Events</h2><ol class="event-list" start="0" ref=${list}>
    ${steps.value.map((step) => html`<li key=${step.number} class=${step.number > cursor.value ? "future" : ""} aria-current=${step.number === cursor.value ? "step" : undefined}
      onPointerEnter=${() => { looked.value = step.number; }} onPointerLeave=${() => { looked.value = null; }} onFocusIn=${() => { looked.value = step.number; }} onFocusOut=${() => { looked.value = null; }}>
      <button type="button" class="link mono" onClick=${() => go(step.number)}>${step.number === 0 ? "start" : step.move}</button>
      ${step.records.filter((record) => record.kind === "sent" || record.kind === "told").map((record, i) => html`<span key=${i} class="quiet mono"> ${record.kind === "sent" ? `${record.sender} > ${record.receiver} ${record.label}` : `${record.process} ${record.label ?? ""}`}</span>`)}
      ${step.violation && html`<strong class="bad"> ✕ ${step.violation.text}</strong>`}
    </li>`)}</ol></section>`;
}

export async function save(form) {
  let response;
  try {
    response = await request("/api/export", { first: first.value, moves: moves.value, form, bound: effectiveBound.value });
  } catch (error) { complain(error); return; }
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? `run.${form}`;
  download(name, await response.blob());
}

export async function loadCatalogue() {
  try { catalogue.value = await ask("/api/catalogue"); } catch (error) { complain(error); }
}
