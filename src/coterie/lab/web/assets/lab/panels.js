// What stands around the diagram: the verdict, the moves, the events.
import { capital, download, html } from "../ui.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { kindOf } from "./kinds.js";
import { messageOf } from "./diagram.js";
import { ViewButtons, found, freeMoves, pointed } from "./picture.js";
import {
  ask, catalogue, complain, cursor, effectiveBound, fates, findViolation, first, go, hidden, looked, make, makeNow, moves,
  outcome, place, problem, redo, request, saved, searching, soon, steps, undo,
} from "./run.js";
import { Properties } from "./state.js";

/** The headline of a run: a word and a sentence, what could not be answered, or what is not told. */
function headline(here) {
  if (here) return html`<strong>${capital(here.word)}:</strong> ${here.text}`;
  if (hidden.value) return "Where each move leads is hidden in a challenge";
  return searching.value ? "Searching all that can follow…" : "Not judged";
}

export function Verdict() {
  const here = fates.value?.here;
  const blunder = fates.value?.blunder;
  if (problem.value) return html`<div class="notice bad" role="alert"><p><strong>${capital(problem.value.error)}.</strong></p>
    ${problem.value.unreachable && html`<p>The run is kept. Start the laboratory again with <code>coterie lab</code>, then make the move again.</p>`}</div>`;
  return html`<section class="verdict is-${here?.word ?? "open"}" aria-label="verdict">
    <span class="sign" aria-hidden="true">${here?.sign ?? "·"}</span>
    <div aria-live="polite"><h2 class="headline">${headline(here)}</h2>
      ${outcome.value && html`<p class="more">${outcome.value}</p>`}
      ${blunder && html`<p class="more">${capital(blunder.text)}.</p>`}<${Properties} /></div>
    <div class="aside">${blunder && html`<button type="button" onClick=${() => go(blunder.number - 1)}>Go back to move ${blunder.number - 1}</button>`}
      <span>${searching.value ? "searching…" : fates.value?.searched.text ?? ""}</span></div>
  </section>`;
}

const FINDS = () => (!saved || saved.map) && !hidden.value;

export function TimeBar() {
  const all = moves.value.length, now = cursor.value;
  return html`<div class="time-bar row">
    <button type="button" class="icon-button" aria-label="to the start" disabled=${now === 0} onClick=${() => go(0)}>⇤</button>
    <button type="button" class="icon-button" aria-label="one move back" disabled=${now === 0} onClick=${() => go(now - 1)}>←</button>
    <button type="button" class="icon-button" aria-label="one move on" disabled=${now === all} onClick=${() => go(now + 1)}>→</button>
    <button type="button" class="icon-button" aria-label="to the end" disabled=${now === all} onClick=${() => go(all)}>⇥</button>
    <label class="slider"><span class="hidden-text">place in the run</span>
      <input key=${all} type="range" min="0" max=${all} value=${now} onInput=${(event) => go(Number(event.currentTarget.value))} /></label>
    <span class="where">${now} of ${all}</span><${ViewButtons} />
    <div class="row"><button type="button" onClick=${undo}>undo</button><button type="button" onClick=${redo}>redo</button>
      <button type="button" onClick=${() => soon(runUntilQuiet)}>run until quiet <kbd>g</kbd></button>
      ${FINDS() && html`<button type="button" onClick=${() => findViolation(0)}>Find the shortest violation <kbd>f</kbd></button>
        ${now > 0 && html`<button type="button" onClick=${() => findViolation(now)}>from here <kbd>F</kbd></button>`}`}</div>
  </div>`;
}

export function runUntilQuiet() {
  if (place.value?.enabled.some((move) => move.kind === "deliver")) makeNow("run");
}

const SEEN = "coterie-explained";
const isKnown = signal(readKnown());

function readKnown() {
  try { return localStorage.getItem(SEEN) !== null; } catch { return false; }
}

function noteKnown(event) {
  if (event.currentTarget.open || isKnown.value || !matchMedia("(min-width: 52.01rem)").matches) return;
  isKnown.value = true;
  try { localStorage.setItem(SEEN, "yes"); } catch { /* a page without storage explains itself again */ }
}

/** What the signs of the diagram mean, and what to try: open until the reader closes it. */
export function Explanation() {
  return html`<details class="explanation" open=${!isKnown.value && matchMedia("(min-width: 52.01rem)").matches} onToggle=${noteKnown}><summary>What do I see?</summary><dl>
    <div><dt><span class="sign-of ghost-sign"></span> a circle</dt><dd>a move that could come next: click it, or press its number</dd></div>
    <div><dt><span class="sign-of arrow-sign"></span> a dashed arrow</dt><dd>a message on its way; it arrives when you deliver it</dd></div>
    <div><dt><span class="sign-of waiting-sign"></span> hatched</dt><dd>the process has asked, and waits</dd></div>
    <div><dt><span class="sign-of inside-sign"></span> green</dt><dd>the process is inside; two at once is a violation</dd></div>
    <div><dt><span class="is-safe fate">safe</span>, <span class="is-risky fate">risky</span>, <span class="is-lost fate">lost</span></dt><dd>all that can follow was searched: nothing can go wrong, it still can, it cannot be put right any more</dd></div>
    ${!saved && html`<div><dt>What to try</dt><dd>make a move that is risky, then one that is lost; go back, and save it. Or take a <a href="#/break">challenge</a></dd></div>`}</dl></details>`;
}

let byRow = false; // whether the last move was made by a key in the list, which then goes on there

export function Moves() {
  const list = useRef(null);
  useEffect(() => {
    if (byRow) list.current?.querySelector("button")?.focus({ preventScroll: true });
    byRow = false;
  }, [place.value]);
  const free = freeMoves.value;
  const faults = (place.value?.enabled ?? []).filter((move) => move.fault);
  return html`<section class="card"><div class="section-line"><h2>Moves</h2><span class="quiet small">${free.length === 0 ? "none is left" : free.length === 1 ? "one is possible" : `${free.length} are possible`}</span></div>
    ${free.length === 0 && html`<p class="quiet">${steps.value[cursor.value]?.violation ? "The run has ended with a violation. Go back, and try another move." : "No message is on its way, and no timer runs: nothing is left but faults."}</p>`}
    <ol class="moves" ref=${list}>${free.map((move, i) => html`<${Move} key=${move.text} move=${move} number=${i + 1} />`)}</ol>
    ${faults.length > 0 && html`<details class="fold"><summary>Faults (${faults.length})</summary><ul class="moves">${faults.map((move) => html`<${Move} key=${move.text} move=${move} />`)}</ul></details>`}
  </section>`;
}

const CALLS = { acquire: "asks to enter", release: "leaves", elect: "calls an election", crash: "crashes", restart: "starts again" };

function Move({ move, number }) {
  const fate = fates.value?.moves[move.text];
  const message = messageOf(move, place.value.transit);
  const verb = move.text.split(" ")[0];
  const point = (text) => () => { pointed.value = text; };
  function press(event) {
    byRow = event.detail === 0; // a key, and not a pointer
    make(move.text);
  }
  return html`<li class="is-${fate?.word ?? "open"}"><button type="button" class="move" onClick=${press}
      onPointerEnter=${point(move.text)} onPointerLeave=${point("")} onFocus=${point(move.text)} onBlur=${point("")}>
    <kbd>${number < 10 ? number : ""}</kbd><span class="to">${move.process || ""}</span>
    <span class="what">${message ? html`receives <span class="k-${kindOf(message.label)}">${message.label}</span> from ${message.sender}` : CALLS[verb] ?? move.text}<span class="typed"> ${move.text}</span></span>
    ${fate && html`<span class="fate" title=${fate.text}><span>${fate.sign} </span>${fate.text.startsWith("outside the bound") ? fate.text : `${fate.word}${fate.moves ? ` in ${fate.moves}` : ""}`}</span>`}</button></li>`;
}

const wanted = signal(""); // what is looked for among the events

const wordsOf = (step) => [step.move || "start", ...step.records.filter((record) => record.kind === "sent" || record.kind === "told")
  .map((record) => (record.kind === "sent" ? `${record.sender} > ${record.receiver} ${record.label}` : `${record.process} ${record.label ?? ""}`))];

function look(event) {
  wanted.value = event.currentTarget.value;
  const text = wanted.value.trim().toLowerCase();
  found.value = new Set(text ? steps.value.filter((step) => wordsOf(step).join(" ").toLowerCase().includes(text)).map((step) => step.number) : []);
}

/** Enter goes to the next event that was found, and from the last one to the first. */
function goToFound(event) {
  const all = [...found.value];
  if (event.key === "Enter" && all.length > 0) go(all.find((number) => number > cursor.value) ?? all[0]);
}

export function Events() {
  const list = useRef(null);
  useEffect(() => { // the list follows the reader, the page does not
    const here = list.current?.querySelector("[aria-current]");
    if (here) list.current.scrollTop = Math.max(0, here.offsetTop - list.current.offsetTop - list.current.clientHeight / 2);
  });
  return html`<section class="card"><div class="section-line"><h2>Events</h2>
      <label class="small">find <input type="search" value=${wanted.value} onInput=${look} onKeyDown=${goToFound} placeholder="Request, 2 > 3" /></label></div>
    ${wanted.value.trim() && html`<p class="quiet small" role="status">${found.value.size === 0 ? "no event has that" : `${found.value.size} found; Enter goes to the next`}</p>`}
    <ol class="event-list" start="0" ref=${list}>
    ${steps.value.map((step) => html`<li key=${step.number} class="${step.number > cursor.value ? "future" : ""} ${found.value.has(step.number) ? "found" : ""}" aria-current=${step.number === cursor.value ? "step" : undefined}
      onPointerEnter=${() => { looked.value = step.number; }} onPointerLeave=${() => { looked.value = null; }} onFocusIn=${() => { looked.value = step.number; }} onFocusOut=${() => { looked.value = null; }}>
      <button type="button" class="link mono" onClick=${() => go(step.number)}>${wordsOf(step)[0]}</button>
      ${wordsOf(step).slice(1).map((words, i) => html`<span key=${i} class="quiet mono"> ${words}</span>`)}
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
