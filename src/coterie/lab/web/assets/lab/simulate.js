// Simulate: a run in virtual time, drawn and measured, that goes on by hand from any of its events.
import { html } from "../ui.js";
import { batch, signal } from "../vendor/signals.js";
import { AlgorithmFields } from "./scenario.js";
import { ask, first } from "./run.js";
import { Around, Legend, Timeline, ViewBar, newView, reveal, sentence, timeOf, whole } from "./timeline.js";
export { KEYS } from "./timeline.js";
import { RunFields, USUAL, isElection, number, range, readChoice, simulate, writeChoice } from "./trial.js";

const DEFAULT = "maekawa 7";
const choice = signal({ ...USUAL, first: DEFAULT });
const answer = signal(null);
const refusal = signal("");
const busy = signal(false);
const chosen = signal(null);
const view = newView();
let asked = 0;

/** Open `#/sim/FIRST?…@EVENT`. */
export function open(hash) {
  const [, body = ""] = /^#\/sim\/?(.*)$/.exec(hash) ?? [];
  const [, text, at] = /^(.*?)(?:@(\d+))?$/.exec(body);
  run(text ? readChoice(text) : { ...USUAL, first: DEFAULT }, at === undefined ? null : Number(at));
}

async function run(next, at = null) {
  const mine = ++asked;
  const isAnother = answer.value === null || next.first !== choice.value.first;
  batch(() => { choice.value = next; busy.value = true; });
  write();
  try {
    const found = await simulate(next);
    if (mine !== asked) return;
    batch(() => {
      answer.value = found; refusal.value = ""; busy.value = false;
      const count = found.columns.events.time.length;
      chosen.value = at !== null && at < count ? at : found.succeeded || !count ? null : count - 1;
      view.value = whole(found.columns);
    });
    if (isAnother) first.value = next.first; // the other pages go on with it
    write();
  } catch (error) {
    if (mine === asked) batch(() => { refusal.value = error.message; busy.value = false; });
  }
}

function write() {
  const text = `#/sim/${writeChoice(choice.value)}${chosen.value === null ? "" : `@${chosen.value}`}`;
  if (location.hash !== text) history.replaceState(null, "", text);
  document.title = `${choice.value.first} simulated · coterie lab`;
}

function change(changes) {
  run({ ...choice.value, ...changes });
}

function changeFirst(line) {
  const size = Number(line.split(" ")[1]) || 3;
  // An election begins with a crash; without one nothing would happen.
  const faults = isElection(line) && choice.value.faults.length === 0 ? [`crash ${size} @ 5`] : isElection(choice.value.first) && !isElection(line) ? [] : choice.value.faults;
  run({ ...choice.value, first: line, faults });
}

function choose(event) {
  chosen.value = event;
  reveal(view, answer.value.columns, answer.value.columns.events.time[event]);
  write();
}

/** Play the run by hand from the chosen event on. */
async function fork() {
  const { events } = answer.value.columns;
  const until = chosen.value === null ? 0 : events.record[chosen.value] + 1;
  try {
    const found = await ask("/api/fork", { trial: choice.value, until });
    location.hash = found.address;
  } catch (error) { refusal.value = error.message; }
}

export function Main() {
  const found = answer.value;
  return html`<main class="trial">
    <form class="left" onSubmit=${(event) => event.preventDefault()}><section class="card"><h2>The run</h2><div class="form">
      <${AlgorithmFields} first=${choice.value.first} most="64" onChange=${changeFirst} />
      <${RunFields} choice=${choice.value} onChange=${change} election=${isElection(choice.value.first)} /></div></section></form>
    <div class="wide-column" aria-busy=${busy.value}>
      ${refusal.value && html`<div class="notice bad" role="alert"><p>${refusal.value}</p></div>`}
      ${found && html`<${Outcome} found=${found} />
        <${Figures} found=${found} />
        <${Timeline} columns=${found.columns} view=${view} chosen=${chosen.value} onChoose=${choose} onOpen=${fork}
          label="the run as a diagram: arrow keys step through its events, plus and minus zoom, 0 shows all, Enter plays it from there" />
        <${ViewBar} columns=${found.columns} view=${view}><button type="button" class="main-button" onClick=${fork}>${chosen.value === null ? "play from the start" : "play from here"}</button><//>
        <p class="chosen" aria-live="polite">${chosen.value === null ? "Click an event, or press an arrow key in the diagram. A message without a name shows it when it is pointed at." : `${timeOf(found.columns, chosen.value)}: ${sentence(found.columns, chosen.value)}`}</p>
        <${Legend} columns=${found.columns} />
        <div class="cards"><${Around} columns=${found.columns} chosen=${chosen.value} onChoose=${choose} /><${Theory} found=${found} /></div>
        <p class="quiet command">The same on a command line: <code>${found.command}</code></p>`}
    </div></main>`;
}

function Outcome({ found }) {
  return html`<div class="outcome ${found.succeeded ? "good-edge" : "bad-edge"}" role="status">
    ${found.outcome.map((said, i) => html`<p key=${i}>${i === 0 && html`<strong class=${found.succeeded ? "good" : "bad"}>${found.succeeded ? "✓" : "✕"} </strong>`}${said}</p>`)}</div>`;
}

function Figures({ found }) {
  const { figures } = found;
  const mean = (delay) => (delay ? number(delay.mean) : "–");
  const rows = [
    [figures.entries.toLocaleString("en"), "entries"], [figures.messages.toLocaleString("en"), "messages"], [number(figures.messages_per_entry), "messages per entry"],
    [mean(figures.waiting), "mean wait"], [figures.waiting ? number(figures.waiting.max) : "–", "longest wait"], [mean(figures.synchronisation_delay), "hand-over"],
    [number(figures.jain), "fairness (Jain)"], [String(figures.overtaken_max), "overtaken at most"],
  ];
  const shown = isElection(found.first) ? rows.slice(1, 2) : rows;
  return html`<ul class="figures">${shown.filter(([value]) => value !== "–").map(([value, name]) => html`<li key=${name}><b>${value}</b>${name}</li>`)}</ul>`;
}

function Theory({ found }) {
  const { figures } = found;
  return html`<section class="card"><h2>What theory says of ${found.algorithm}, N = ${found.size}</h2>
    <table><caption class="hidden-text">costs by formula</caption><thead><tr><th scope="col">cost</th><th scope="col">formula</th><th scope="col" class="number">here</th></tr></thead><tbody>
      ${found.theory.map((cost) => html`<tr key=${cost.name}><td>${cost.text}</td><td class="mono">${cost.formula}</td><td class="number">${range(cost)}</td></tr>`)}</tbody></table>
    <p class="quiet">${Object.entries(figures.messages_by_kind).map(([kind, count]) => `${kind} ${count.toLocaleString("en")}`).join(", ")}; process ${figures.busiest} handled ${figures.busiest_messages.toLocaleString("en")} of them.${" "}
      <a href="#/compare/${encodeURIComponent(found.algorithm)}?N=${Math.min(16, found.size)}">Compare it with others</a></p></section>`;
}
