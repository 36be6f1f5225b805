// Compare: several algorithms meet the same requests; messages and waiting are counted as time goes on.
import { html } from "../ui.js";
import { batch, computed, signal } from "../vendor/signals.js";
import { ask, catalogue } from "./run.js";
import { Legend, Timeline, ViewBar, firstFrom, isEntry, newView, reveal, whole } from "./timeline.js";
export { KEYS } from "./timeline.js";
import { RunFields, USUAL, decode, isElection, number, queryOf, range, readChoice, simulate, writeChoice } from "./trial.js";

const RACERS_MAX = 4;
const SECONDS = 10; // that a race takes to be shown
const usual = { ...USUAL, workload: "poisson", rate: 0.3, entries: 2 };
const names = signal(["maekawa", "ricart-agrawala"]); // each maybe with choices: `maekawa variant=basic`
const size = signal(7);
const choice = signal(usual);
const racers = signal([]); // {line, found, refusal}
const measured = signal([]);
const clock = signal(0);
const running = signal(false);
const view = newView();
let asked = 0;
let frame = 0;

const lineOf = (name) => { const [algorithm, ...rest] = name.split(" "); return [algorithm, size.value, ...rest].join(" "); };
const entryOf = (name) => catalogue.value.find((each) => each.name === name.split(" ")[0]);

/** Open `#/compare/A,B?N=…&workload=…`. */
export function open(hash) {
  const [, text = "", query = ""] = /^#\/compare\/?([^?]*)\??(.*)$/.exec(hash) ?? [];
  let wanted = decode(text).split(",").map((each) => each.trim()).filter(Boolean).slice(0, RACERS_MAX);
  if (wanted.length === 0) wanted = names.value;
  if (wanted.length === 1) wanted.push(rivalOf(wanted[0]));
  const given = new URLSearchParams(query);
  const read = readChoice(`x?${query}`);
  const chosen = { ...usual };
  for (const name of Object.keys(USUAL)) if (name === "faults" ? given.has("fault") : given.has(name)) chosen[name] = read[name];
  race(wanted, Number(given.get("N")) || size.value, chosen);
}

export const close = () => { pause(); };

function rivalOf(name) {
  if (isElection(name)) return name.startsWith("bully") ? "ring" : "bully";
  return name.startsWith("ricart-agrawala") ? "maekawa" : "ricart-agrawala";
}

async function race(wanted, count, chosen) {
  const mine = ++asked;
  pause();
  const elects = isElection(`${wanted[0]} 3`);
  const faults = elects && chosen.faults.length === 0 ? [`crash ${count} @ 5`] : chosen.faults;
  batch(() => { names.value = wanted; size.value = count; choice.value = { ...chosen, faults }; });
  write();
  const found = await Promise.all(wanted.map(async (name) => {
    try { return { line: lineOf(name), found: await simulate({ ...choice.value, first: lineOf(name) }), refusal: "" }; } catch (error) { return { line: lineOf(name), found: null, refusal: error.message }; }
  }));
  if (mine !== asked) return;
  batch(() => {
    racers.value = found;
    clock.value = end.value;
    view.value = everything();
  });
  const costs = await Promise.all(wanted.map(async (name) => {
    try { return await ask("/api/measure", { first: lineOf(name) }); } catch (error) { return { first: lineOf(name), costs: [], refusal: error.message }; }
  }));
  if (mine === asked) measured.value = costs;
}

function write() {
  const changedOnes = Object.fromEntries(Object.entries(choice.value).map(([name, value]) => [name, JSON.stringify(value) === JSON.stringify(usual[name]) ? USUAL[name] : value]));
  const query = [`N=${size.value}`, queryOf({ ...changedOnes, faults: choice.value.faults })].filter(Boolean).join("&");
  const text = `#/compare/${names.value.map((name) => encodeURIComponent(name).replace(/%3D/gi, "=")).join(",")}?${query}`;
  if (location.hash !== text) history.replaceState(null, "", text);
  document.title = `${names.value.join(" and ")} compared · coterie lab`;
}

const ran = computed(() => racers.value.filter((each) => each.found));
const end = computed(() => Math.max(1, ...ran.value.map((each) => each.found.time)));
const columnsOf = () => ran.value[0]?.found.columns;
/** One axis for all: as long as the longest run. */
const everything = () => whole({ begin: 0, end: end.value });

// Scores

const scores = computed(() => ran.value.map(({ line, found }) => scoreAt(line, found, clock.value)));

function scoreAt(line, found, now) {
  const { stays, texts, messages, events } = found.columns;
  let waited = 0, waiting = 0, entries = 0;
  for (let i = 0; i < stays.begin.length; i += 1) {
    if (texts[stays.text[i]] !== "waiting" || stays.begin[i] > now) continue;
    waited += Math.min(stays.end[i], now) - stays.begin[i];
    if (stays.end[i] > now) waiting += 1;
  }
  for (let i = 0; i < events.time.length && events.time[i] <= now; i += 1) if (isEntry(texts[events.text[i]])) entries += 1;
  return { line, messages: firstFrom(messages.sent, now + 1e-9), entries, waited, waiting };
}

/** The moments at which a process enters in any of the runs. */
const moments = computed(() => [...new Set(ran.value.flatMap(({ found: { columns: { events, texts } } }) => events.time.filter((_, i) => isEntry(texts[events.text[i]]) || texts[events.kind[i]] === "violated")))].sort((a, b) => a - b));

function pause() {
  cancelAnimationFrame(frame);
  running.value = false;
}

function play() {
  if (running.value) { pause(); return; }
  const isWhole = clock.value >= end.value;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) { step(1); return; }
  if (isWhole) clock.value = 0;
  running.value = true;
  let last = performance.now();
  const tick = (now) => {
    clock.value = Math.min(end.value, clock.value + (now - last) / 1000 * end.value / SECONDS);
    last = now;
    if (clock.value >= end.value) pause();
    else frame = requestAnimationFrame(tick);
  };
  frame = requestAnimationFrame(tick);
}

function step(direction) {
  pause();
  const next = direction > 0 ? moments.value.find((each) => each > clock.value + 1e-9) ?? end.value : moments.value.findLast((each) => each < clock.value - 1e-9) ?? 0;
  clock.value = next;
  if (columnsOf()) reveal(view, { begin: 0, end: end.value }, next);
}

export function Main() {
  return html`<main class="trial">
    <form class="left" onSubmit=${(event) => event.preventDefault()}><section class="card"><h2>The race</h2><div class="form">
      ${names.value.map((name, i) => html`<${Racer} key=${i} name=${name} place=${i} />`)}
      <p class="row">${names.value.length < RACERS_MAX && html`<button type="button" onClick=${() => race([...names.value, rivalOf(names.value.at(-1))], size.value, choice.value)}>add one</button>`}
        ${names.value.length > 2 && html`<button type="button" onClick=${() => race(names.value.slice(0, -1), size.value, choice.value)}>remove the last</button>`}</p>
      <label>processes <input type="number" min="1" max="64" value=${size.value} onChange=${(event) => race(names.value, Number(event.currentTarget.value), choice.value)} /></label>
      <${RunFields} choice=${choice.value} election=${isElection(`${names.value[0]} 3`)} onChange=${(changes) => race(names.value, size.value, { ...choice.value, ...changes })} />
    </div><p class="quiet">${isSame() ? "All meet the same requests, at the same moments." : "The same requests, but their moments depend on what came before: a slow algorithm meets them later."}</p></section></form>
    <div class="wide-column">
      ${racers.value.filter((each) => each.refusal).map((each) => html`<div key=${each.line} class="notice bad" role="alert"><p>${each.line}: ${each.refusal}</p></div>`)}
      ${ran.value.length > 0 && html`<${Scores} /><${RaceBar} />${ran.value.map((each) => html`<${Lane} key=${each.line} racer=${each} />`)}<${Costs} />`}
    </div></main>`;
}

/** Whether chance decides about requests alone: then all algorithms meet them at the same moments. */
const isSame = () => (choice.value.workload === "poisson" || choice.value.workload === "hot-spot" || (choice.value.workload === "burst" && choice.value.entries === 1)) && /^[\d.]+$/.test(choice.value.hold);

function Racer({ name, place }) {
  const elects = isElection(`${names.value[0]} 3`);
  const options = catalogue.value.filter((each) => (each.family === "election") === elects || place === 0);
  return html`<label>${place === 0 ? "algorithm" : "against"} <select value=${name.split(" ")[0]} onChange=${(event) => {
    const next = event.currentTarget.value;
    const others = place === 0 && isElection(`${next} 3`) !== elects ? [next, rivalOf(next)] : names.value.map((each, i) => (i === place ? next : each));
    race(others, size.value, isElection(`${next} 3`) !== elects ? { ...choice.value, faults: [] } : choice.value);
  }}>${options.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === name.split(" ")[0]}>${each.name}</option>`)}</select></label>`;
}

function Scores() {
  const measures = [["messages", "messages sent", 0], ["entries", "entries", 0], ["waited", "waiting, all together", 1]];
  const last = ran.value.map(({ line, found }) => scoreAt(line, found, end.value));
  return html`<div class="cards narrow">${measures.filter(([name]) => last.some((each) => each[name] > 0)).map(([name, title, digits]) => {
    const most = Math.max(1e-9, ...last.map((each) => each[name]));
    return html`<section class="card" key=${name}><h2>${title}</h2><div class="scores">
      ${scores.value.map((score) => html`<div class="score" key=${score.line}><span>${score.line.split(" ")[0]}</span><div class="track"><span style="width: ${(100 * score[name] / most).toFixed(2)}%"></span></div><span class="value">${score[name].toLocaleString("en", { maximumFractionDigits: digits })}</span></div>`)}
    </div></section>`;
  })}</div>`;
}

function RaceBar() {
  return html`<div class="row view-bar">
    <button type="button" aria-label="to the start" onClick=${() => { pause(); clock.value = 0; }}>|◂</button>
    <button type="button" aria-label="the entry before" onClick=${() => step(-1)}>◂</button>
    <button type="button" class="main-button" onClick=${play}>${running.value ? "pause" : "race"}</button>
    <button type="button" aria-label="the next entry" onClick=${() => step(1)}>▸</button>
    <button type="button" aria-label="to the end" onClick=${() => { pause(); clock.value = end.value; }}>▸|</button>
    <label class="slider"><span class="hidden-text">time</span><input type="range" min="0" max=${end.value} step=${end.value / 1000} value=${clock.value} onInput=${(event) => { pause(); clock.value = Number(event.currentTarget.value); }} /></label>
    <span class="mono">${clock.value.toFixed(1)} of ${end.value.toFixed(1)}</span></div>`;
}

function Lane({ racer }) {
  const { found, line } = racer;
  const idle = found.theory.find((cost) => cost.name === "idle");
  return html`<section class="racer"><h2>${line} <span class="quiet">${number(found.figures.messages_per_entry)} messages per entry${idle && html` (one at a time <span class="mono">${idle.formula}</span> = ${range(idle)})`}, mean wait ${number(found.figures.waiting?.mean)}</span>
      <a href="#/sim/${writeChoice({ ...choice.value, first: line })}">simulate</a></h2>
    ${!found.succeeded && html`<p class="bad">✕ ${found.outcome[0]}</p>`}
    <${Timeline} columns=${found.columns} view=${view} until=${clock.value >= end.value ? null : clock.value} label="${line} as a diagram; the table of costs and the scores say the same in numbers" />
    <${Legend} columns=${found.columns} /></section>`;
}

function Costs() {
  const known = measured.value.filter((each) => each.costs.length > 0);
  const rows = known[0]?.costs ?? [];
  return html`<${ViewBar} columns=${{ begin: 0, end: end.value }} view=${view} />
    ${known.length > 0 && html`<section class="card"><h2>Costs measured beside the formulas, N = ${size.value}</h2>
      <table><caption class="hidden-text">costs</caption><thead><tr><th scope="col">cost</th>${known.map((each) => html`<th key=${each.first} scope="col">${each.first.split(" ")[0]}</th>`)}</tr></thead><tbody>
      ${rows.map((row) => html`<tr key=${row.name}><th scope="row">${row.text}</th>${known.map((each) => html`<${Cost} key=${each.first} cost=${each.costs.find((cost) => cost.name === row.name)} />`)}</tr>`)}</tbody></table>
      <p class="quiet">Measured in runs of their own: one at a time, all at once, a hand-over, at a latency of 1.</p></section>`}
    ${measured.value.filter((each) => each.refusal).map((each) => html`<p key=${each.first} class="quiet">${each.first}: ${each.refusal}</p>`)}`;
}

function Cost({ cost }) {
  if (!cost) return html`<td>–</td>`;
  return html`<td><b>${number(cost.measured)}</b> <span class=${cost.agrees ? "good" : "bad"}>${cost.agrees ? "✓" : "✕ not"}</span> <span class="mono">${cost.formula}</span> <span class="quiet">= ${range(cost)}</span></td>`;
}
