// Check: every interleaving within a bound, with progress; what is found is played by hand.
import { Sparkline, html } from "../ui.js";
import { batch, signal } from "../vendor/signals.js";
import { AlgorithmFields, parts } from "./scenario.js";
import { BOUNDS, catalogue, first, request } from "./run.js";
import { linesOf } from "./stream.js";
import { Legend, Timeline, ViewBar, newView, whole } from "./timeline.js";
export { KEYS } from "./timeline.js";
import { decode } from "./trial.js";

const DEFAULT = "maekawa 3 variant=survey";
const NONE = { entries: 1, crashes: 0, losses: 0, duplicates: 0, suspicions: 0 };
const WORDS = { verified: ["✓", "good"], violated: ["✕", "bad"], unfinished: ["?", "warning"], vacuous: ["?", "warning"] };
const line = signal(DEFAULT);
const bound = signal(NONE);
const progress = signal(null);
const rates = signal([]); // states, whenever the search has told of them
const verdict = signal(null);
const refusal = signal("");
const searching = signal(false);
const chosen = signal(null);
const view = newView();
let stop = new AbortController();

/** Open `#/check/FIRST?entries=…&crashes=…`. */
export function open(hash) {
  const [, text = "", query = ""] = /^#\/check\/?([^?]*)\??(.*)$/.exec(hash) ?? [];
  const given = new URLSearchParams(query);
  const allowed = { ...NONE };
  for (const name of Object.keys(NONE)) if (given.has(name)) allowed[name] = Math.max(0, Math.min(BOUNDS[name], Number(given.get(name)) || 0));
  check(decode(text) || DEFAULT, allowed);
}

/** Leave the page: the answer is no longer awaited. */
export const close = () => stop.abort();

async function check(wanted, allowed) {
  stop.abort();
  const mine = stop = new AbortController();
  batch(() => { line.value = wanted; first.value = wanted; bound.value = allowed; verdict.value = null; progress.value = null; rates.value = []; refusal.value = ""; searching.value = true; chosen.value = null; });
  write();
  try {
    const response = await request("/api/check", { first: wanted, bound: allowed }, mine.signal);
    for await (const said of linesOf(response)) if (mine === stop) take(said);
  } catch (error) {
    if (mine === stop && error.name !== "AbortError") refusal.value = error.message;
  }
  if (mine === stop) searching.value = false;
}

function take(said) {
  batch(() => {
    if (said.progress) { progress.value = said.progress; rates.value = [...rates.value, said.progress.states_per_second].slice(-60); }
    if (said.refusal) refusal.value = said.refusal.error;
    if (said.verdict) {
      verdict.value = said.verdict;
      if (said.verdict.counterexample) view.value = whole(said.verdict.counterexample.columns);
    }
  });
}

function write() {
  const query = Object.keys(NONE).filter((name) => bound.value[name] !== NONE[name]).map((name) => `${name}=${bound.value[name]}`).join("&");
  const text = `#/check/${encodeURIComponent(line.value).replace(/%(3D|2C|3A)/gi, decodeURIComponent)}${query && `?${query}`}`;
  if (location.hash !== text) history.replaceState(null, "", text);
  document.title = `${line.value} checked · coterie lab`;
}

export function Main() {
  return html`<main class="trial">
    <form class="left" onSubmit=${(event) => event.preventDefault()}><section class="card"><h2>What to check</h2><div class="form">
      <${AlgorithmFields} first=${line.value} most="8" onChange=${(next) => check(next, bound.value)} />
      ${Object.entries(BOUNDS).map(([name, most]) => html`<label key=${name}>${name} <input type="number" min="0" max=${most} value=${bound.value[name]}
        onChange=${(event) => check(line.value, { ...bound.value, [name]: Math.max(0, Math.min(most, Number(event.currentTarget.value) || 0)) })} /></label>`)}</div>
      <${KnownFlaw} />
      <p class="quiet">Every order of requests, deliveries, timers and faults is tried, in breadth: what is found first is a shortest one.</p></section></form>
    <div class="wide-column">
      ${refusal.value && html`<div class="notice bad" role="alert"><p>${refusal.value}</p></div>`}
      ${searching.value ? html`<${Progress} />` : !verdict.value && !refusal.value && html`<p class="row">Stopped. <button type="button" onClick=${() => check(line.value, bound.value)}>search again</button></p>`}
      ${verdict.value && html`<${Verdict} said=${verdict.value} />`}
    </div></main>`;
}

/** A flawed variant may be fine in a small setting: offer the smallest in which it is known to fail. */
function KnownFlaw() {
  const { name, variant } = parts(line.value);
  const flaw = catalogue.value.find((each) => each.name === name)?.variants.find((each) => each.name === variant)?.flaw;
  if (!flaw) return null;
  const wanted = [name, flaw.size, `variant=${variant}`, ...Object.entries(flaw.parameters).map(([key, value]) => `${key}=${value}`)].join(" ");
  return html`<p><button type="button" onClick=${() => check(wanted, { ...NONE, entries: flaw.entries, crashes: flaw.crashes })}>where it is known to fail</button></p>`;
}

function Progress() {
  const now = progress.value;
  return html`<section class="card" role="status"><h2>Searching</h2>
    <progress aria-label="searching"></progress>
    <p class="progress-line">${now ? html`<b>${now.states.toLocaleString("en")}</b> states, ${now.depth} moves deep, ${Math.round(now.states_per_second).toLocaleString("en")} states a second, ${now.seconds.toFixed(1)} s` : "beginning…"}</p>
    <${Sparkline} values=${rates.value} label="states a second" />
    <button type="button" onClick=${() => { stop.abort(); searching.value = false; }}>cancel</button></section>`;
}

function Verdict({ said }) {
  const [sign, look] = WORDS[said.verdict] ?? ["", ""];
  const found = said.counterexample;
  const rate = said.states / Math.max(said.seconds, 1e-9);
  return html`<div class="outcome ${look}-edge" role="status"><p><strong class=${look}>${sign} ${said.verdict}</strong>${said.property && html`: the property “${said.property}”`}</p><p>${said.reason}</p>
      ${said.notes.map((note) => html`<p key=${note} class="quiet">${note}</p>`)}</div>
    <ul class="figures"><li><b>${said.states.toLocaleString("en")}</b>states</li><li><b>${said.transitions.toLocaleString("en")}</b>moves between them</li>
      <li><b>${said.depth.toLocaleString("en")}</b>${found ? "moves to the violation" : "moves to the farthest"}</li><li><b>${said.seconds.toFixed(2)}</b>seconds</li><li><b>${Math.round(rate).toLocaleString("en")}</b>states a second</li></ul>
    ${found && html`<${Found} found=${found} />`}
    <p class="quiet command">The same on a command line: <code>${said.command}</code></p>`;
}

function Found({ found }) {
  return html`<section><h2>The shortest way to it</h2>
      <${Timeline} columns=${found.columns} view=${view} chosen=${chosen.value} onChoose=${(event) => { chosen.value = event; }} onOpen=${() => { if (found.address) location.hash = found.address; }}
        label="the violation as a diagram; the moves beside it say the same in words" />
      <${ViewBar} columns=${found.columns} view=${view}>${found.address && html`<a class="button main-button" href=${found.address}>play it</a>`}<//>
      ${found.refusal && html`<p class="quiet">It cannot be played by hand: ${found.refusal}.</p>`}
      <${Legend} columns=${found.columns} /></section>
    <section class="card"><h2>As a scenario</h2><pre class="scenario" tabindex="0" aria-label="the scenario">${found.scenario}</pre></section>`;
}
