// The dashboard: one stream of changes, what is wrong before everything else.
import { render } from "./vendor/preact.js";
import { effect, signal } from "./vendor/signals.js";
import { ask } from "./access.js";
import { Chart } from "./chart.js";
import { askRight } from "./cluster/break.js";
import { Jobs, watchJobs } from "./cluster/jobs.js";
import { Locks } from "./cluster/locks.js";
import { events, eventsKept, graphNumber, hasMessages, locks, longestWait, looks, moment, open, pause, paused, stamp, state, stuck, trouble } from "./cluster/state.js";
import { Chip, Drawing, Head, age, capital, clock, html } from "./ui.js";

function Top() {
  const snapshot = state.value;
  const freshness = paused.value ? `paused at ${stamp()}` : trouble.value ? "stale" : snapshot ? `live ${stamp()}` : "connecting…";
  return html`<${Head} title=${snapshot ? snapshot.name : "coterie"}>
    ${snapshot && html`<span class="quiet small">${snapshot.kind}</span>`}<span class="fresh-word small ${paused.value || trouble.value ? "" : "live"}">${freshness}</span>
    <button type="button" aria-pressed=${paused.value} onClick=${pause}>${paused.value ? "go on" : "pause"}</button><//>`;
}

/** What is wrong, in one sentence: [look, sign, word, sentence, advice]. Not known is neither good nor bad. */
function headline(snapshot) {
  if (trouble.value) {
    return ["open", "?", "Not known", `no answer since ${clock(trouble.value.at)}`,
      `${trouble.value.error}. ${snapshot ? `What stands below was seen at ${stamp()}; it was ${healthOf(snapshot)}. ` : ""}The page goes on by itself as soon as there is an answer.`];
  }
  if (snapshot === null) return ["open", "·", "Connecting", "nothing is known yet", ""];
  const deadlocks = Object.values(snapshot.deadlocks);
  if (deadlocks.length > 0) return ["broken", "✕", "Deadlock", deadlocks.length === 1 ? `${tasksOf(deadlocks[0])} wait for each other` : `${deadlocks.length} of them`, "It ends only if one of the programs lets go, or is ended."];
  if (snapshot.look === "bad") return ["broken", "✕", wordOf(snapshot), whatIsWrong(snapshot), ""];
  const silent = locks.value.filter((lock) => lock.silent.length > 0);
  if (snapshot.look === "warning") return ["risky", "!", wordOf(snapshot), whatIsWrong(snapshot), ""];
  if (silent.length > 0) return ["risky", "!", "Silence", `${silent[0].silent[0]}, which may hold ${silent[0].name}, does not answer`, "The lock is free when its lease is over."];
  if (locks.value.length === 0) return ["open", "·", "Quiet", "no lock is held, and nobody waits", `${capital(snapshot.health)}. What programs do shows here by itself.`];
  const waits = longestWait.value === Infinity ? "nobody waits" : `the longest wait is ${age(moment.value - longestWait.value)}`;
  const held = locks.value.length === 1 ? "1 lock is in use" : `${locks.value.length} locks are in use`;
  return ["safe", "✓", "Well", waits, `${capital(snapshot.health)}; ${held}.`];
}

/** The tasks among what is deadlocked: the rest are locks. */
function tasksOf({ core }) {
  const tasks = core.filter((name) => !state.value.locks[name]);
  return tasks.length > 1 ? `${tasks.slice(0, -1).join(", ")} and ${tasks.at(-1)}` : core.join(", ");
}

/** A sentence of a proof with the age of a wait in place of its moment. */
function withAge(sentence) {
  return sentence.replace(/ since (\d{4}-\d\d-\d\dT[\d:.]+Z)/, (_, since) => `, for ${age(moment.value - Date.parse(since) / 1000)}`);
}

function healthOf(snapshot) {
  const count = Object.keys(snapshot.deadlocks).length;
  return count > 0 ? `${snapshot.health}, with ${count === 1 ? "a deadlock" : `${count} deadlocks`}` : snapshot.health;
}

/** What a cluster says of itself begins with one word. */
const wordOf = (snapshot) => capital(snapshot.health.split(/[:,]/)[0]);

function whatIsWrong(snapshot) {
  const wrong = worstFirst(Object.values(snapshot.nodes)).filter((node) => node.look !== "good").map((node) => `${node.name} ${node.state}`);
  return wrong.join("; ") || snapshot.health;
}

const RANK = { bad: 0, warning: 1, good: 2 };
const worstFirst = (nodes) => [...nodes].sort((a, b) => RANK[a.look] - RANK[b.look] || (a.name < b.name ? -1 : 1));

function Verdict({ snapshot }) {
  const [look, sign, word, text, advice] = headline(snapshot);
  const deadlocks = trouble.value || !snapshot ? [] : Object.values(snapshot.deadlocks);
  useTitle(sign, snapshot);
  return html`<section class="alarm is-${look}" role=${look === "broken" ? "alert" : trouble.value ? "status" : undefined} aria-label="verdict"><div class="verdict is-${look}"><span class="sign" aria-hidden="true">${sign}</span>
      <div><h2 class="headline"><strong>${word}:</strong> ${text}</h2>${advice && html`<p class="more">${advice}</p>`}</div></div>
    ${deadlocks.map((deadlock) => html`<div key=${deadlock.name} class="proof"><h3>A ${deadlock.kind} of ${deadlock.core.length}: ${deadlock.name}</h3>
      <ol>${deadlock.sentences.map((sentence) => html`<li key=${sentence}>${withAge(sentence)}</li>`)}</ol></div>`)}${deadlocks.length > 0 && graph.value && html`<${Drawing} svg=${graph.value} label="wait-for graph; the sentences and the rows of locks say the same in words" />`}</section>`;
}

function useTitle(sign, snapshot) {
  const wanted = `${sign} ${snapshot ? snapshot.name : "coterie"} · coterie`;
  if (document.title !== wanted) document.title = wanted;
}

function Figures({ snapshot }) {
  const held = locks.value.filter((lock) => lock.holders.length || lock.silent.length).length;
  const waiting = locks.value.reduce((sum, lock) => sum + lock.waiters.length, 0);
  const nodes = Object.values(snapshot.nodes), well = nodes.filter((node) => node.look === "good").length;
  const rate = looks.value.at(-1)?.rate;
  const rows = [[held, "held"], [waiting, "waiting"], [longestWait.value === Infinity ? "–" : age(moment.value - longestWait.value), "longest wait"]];
  if (nodes.length > 0) rows.push([`${well} of ${nodes.length}`, nodes.length === 1 ? "node is well" : "nodes are well"]);
  if (Object.keys(snapshot.programs).length > 0) rows.push([Object.keys(snapshot.programs).length, "programs"]);
  if (rate != null && hasMessages()) rows.push([rate.toFixed(0), "messages/s"]);
  return html`<div><ul class="figures">${rows.map(([value, name]) => html`<li key=${name}><b>${value}</b>${name}</li>`)}</ul>
    ${snapshot.notes.map((note) => html`<p key=${note} class="quiet small">${note}</p>`)}</div>`;
}

function Nodes({ snapshot }) {
  const nodes = worstFirst(Object.values(snapshot.nodes));
  if (nodes.length === 0) return null;
  return html`<section aria-labelledby="nodes-title"><div class="section-line"><h2 id="nodes-title">Nodes</h2></div><ul class="nodes">${nodes.map((node) => html`<li key=${node.name}>
    <div><b>${node.name}</b> <${Chip} look=${node.look}>${node.state}<//></div><div class="small quiet mono">${node.address}</div>
    <div class="small quiet">${[node.started === null ? "" : `up ${age(moment.value - node.started)}`, ...Object.entries(node.facts).map(([heading, fact]) => `${heading} ${fact}`)].filter(Boolean).join(", ")}</div></li>`)}</ul></section>`;
}

function Charts() {
  return html`<div class="charts">${hasMessages() && html`<${Chart} title="Messages" unit="per second" points=${looks.value.filter((look) => look.rate !== null).map((look) => [look.at, look.rate])} />`}
    <${Chart} title="Waiting" unit="tasks" points=${looks.value.map((look) => [look.at, look.waiting])} isSteps=${true} /></div>`;
}

const graph = signal(""); // the drawing
const hasWaits = () => locks.value.some((lock) => lock.waiters.length > 0);
effect(() => {
  const number = graphNumber.value;
  if (!hasWaits()) return;
  ask(`/api/cluster/graph.svg?${number}`).then((answer) => (answer.ok ? answer.text() : "")).then((drawn) => { if (number === graphNumber.value) graph.value = drawn; }, () => {});
});

function Graph() {
  if (!hasWaits() || !graph.value || (stuck.value.size > 0 && !trouble.value)) return null; // a deadlock shows it above
  return html`<section aria-labelledby="graph-title"><div class="section-line"><h2 id="graph-title">What waits for what</h2></div><${Drawing} svg=${graph.value} label="wait-for graph; the rows of locks say the same in words" /></section>`;
}

// Events

const LEVELS = { all: ["All", () => true], warning: ["Warnings and alarms", (event) => event.look !== "good"], bad: ["Alarms", (event) => event.look === "bad"] };
const level = signal("warning");

/** Ordinary changes of the same lock, one after another, are one line with their number. */
function folded(list) {
  const lines = [];
  for (const event of list) {
    const subject = event.text.split(": ")[0], last = lines.at(-1);
    if (last && event.look === "good" && last.look === "good" && last.subject === subject) last.times += 1;
    else lines.push({ ...event, subject, times: 1 });
  }
  return lines;
}

function Events() {
  const newest = [...events.value].reverse();
  const lines = folded(newest.filter(LEVELS[level.value][1]));
  return html`<section aria-labelledby="events-title"><div class="section-line"><h2 id="events-title">Events</h2>
      <div class="row" role="group" aria-label="show">${Object.entries(LEVELS).map(([name, [text, belongs]]) => html`<button key=${name} type="button" aria-pressed=${level.value === name} onClick=${() => { level.value = name; }}>${text} ${newest.filter(belongs).length}</button>`)}</div></div>
    ${lines.length === 0 && html`<p class="empty">${newest.length === 0 ? "Nothing has changed since a page was first open." : "No warning since a page was first open."}</p>`}
    <ol class="events" tabindex="0" aria-label="events, the newest first">${lines.map((event) => html`<li key=${`${event.at} ${event.text}`}><time>${clock(event.at)}</time><${Chip} look=${event.look}>${event.text}${event.times > 1 && `, and ${event.times - 1} changes before`}<//></li>`)}</ol>
    <p class="quiet small">Changes between two looks, seen since a page was first open; ${eventsKept.value} kept.</p></section>`;
}

function Page() {
  const snapshot = state.value;
  return html`<${Top} /><main><${Verdict} snapshot=${snapshot} />
    ${snapshot && html`<div class="all ${trouble.value ? "stale" : ""}"><${Figures} snapshot=${snapshot} /><${Locks} /><${Jobs} /><${Nodes} snapshot=${snapshot} /><${Graph} /><${Charts} /><${Events} /></div>`}
  </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
open();
watchJobs();
askRight();
