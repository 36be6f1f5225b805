// The dashboard: one stream of changes, tables that show them, nothing that acts on the cluster.
import { render } from "./vendor/preact.js";
import { computed, effect, signal } from "./vendor/signals.js";
import { Chip, Drawing, Head, Sparkline, age, clock, html, now, setClock } from "./ui.js";
import { SharedStream } from "./stream.js";

const RATES_KEPT = 300; // looks, about five minutes
const EVENTS_KEPT = 500;

const state = signal(null); // the snapshot, with changes applied
const url = signal("");
const trouble = signal(null);
const events = signal([]);
const eventsKept = signal(0);
const graphNumber = signal(0);
const rates = signal([]); // messages a second, all nodes together
const paused = signal(false);
const search = signal("");
const chosen = signal(lockInAddress());

function lockInAddress() {
  const found = /^#lock=(.*)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : ""; } catch { return ""; }
}
addEventListener("hashchange", () => { chosen.value = lockInAddress(); });

// The stream

const stream = new SharedStream("/api/cluster/stream", take, () => state.value && {
  snapshot: state.value, url: url.value, events: events.value, events_kept: eventsKept.value, trouble: trouble.value,
});

function take(kind, data) {
  if (kind === "first") takeFirst(data);
  else if (kind === "delta") takeDelta(data);
  else if (kind === "trouble") trouble.value = data;
  else trouble.value = { at: trouble.value?.at ?? now.value, error: "the program that serves this page does not answer" };
}

function open() {
  if (!paused.value && !document.hidden) stream.open();
}

const close = () => stream.close();

// A page that is not shown asks for nothing.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));

function takeFirst(first) {
  setClock(first.snapshot.at);
  state.value = first.snapshot;
  url.value = first.url;
  events.value = first.events;
  eventsKept.value = first.events_kept;
  graphNumber.value += 1;
  trouble.value = first.trouble ?? null;
  document.title = `${first.snapshot.name} · coterie`;
}

function takeDelta(delta) {
  const old = state.value;
  if (old === null) return;
  setClock(delta.at);
  const merged = { ...old, at: delta.at, look: delta.look, health: delta.health, notes: delta.notes };
  for (const part of ["nodes", "programs", "locks", "deadlocks"]) merged[part] = merge(old[part], delta[part]);
  noteRate(old, merged);
  state.value = merged;
  events.value = [...events.value, ...delta.events].slice(-EVENTS_KEPT);
  eventsKept.value += delta.events.length;
  if (delta.graph) graphNumber.value += 1;
  trouble.value = null;
}

function merge(old, changed) {
  const all = { ...old, ...changed };
  for (const [key, value] of Object.entries(changed)) if (value === null) delete all[key];
  return all;
}

const messagesOf = (node) => Object.values(node.messages).reduce((sum, count) => sum + count, 0);

/** Add up what the nodes have counted that answered both looks and were not started between them. */
function noteRate(old, fresh) {
  const passed = fresh.at - old.at;
  let counted = 0;
  for (const [name, node] of Object.entries(fresh.nodes)) {
    const before = old.nodes[name];
    if (before && messagesOf(before) > 0) counted += Math.max(0, messagesOf(node) - messagesOf(before));
  }
  if (passed > 0) rates.value = [...rates.value, counted / passed].slice(-RATES_KEPT);
}

// The page

const locks = computed(() => Object.values(state.value?.locks ?? {}));
const shown = computed(() => {
  const wanted = search.value.trim().toLowerCase();
  return locks.value
    .filter((lock) => !wanted || lock.name.toLowerCase().includes(wanted) || people(lock).some((owner) => owner.toLowerCase().includes(wanted)))
    .sort((a, b) => oldest(a) - oldest(b) || (a.name < b.name ? -1 : 1));
});

const people = (lock) => [...lock.holders, ...lock.waiters].map((each) => each.owner);
const oldest = (lock) => Math.min(Infinity, ...lock.waiters.map((waiter) => waiter.since));

function Top() {
  const snapshot = state.value;
  return html`<${Head} title=${snapshot ? snapshot.name : "coterie"}>
    ${snapshot && html`<span class="quiet small">${snapshot.kind}</span><${Health} snapshot=${snapshot} />`}
    <${Freshness} />
    <button type="button" aria-pressed=${paused.value} onClick=${pause}>${paused.value ? "go on" : "pause"}</button><//>`;
}

/** Green only where nothing is wrong, and what is shown is of now. */
function Health({ snapshot }) {
  if (trouble.value) return html`<${Chip} look="warning">last seen ${snapshot.health}<//>`;
  const deadlocks = Object.keys(snapshot.deadlocks).length;
  if (deadlocks > 0) return html`<${Chip} look="bad">${deadlocks === 1 ? "a deadlock" : `${deadlocks} deadlocks`}${snapshot.look !== "good" && `, ${snapshot.health}`}<//>`;
  return html`<${Chip} look=${snapshot.look}>${snapshot.health}<//>`;
}

function pause() {
  paused.value = !paused.value;
  if (paused.value) close();
  else open();
}

function Freshness() {
  if (paused.value) return html`<span class="quiet">paused</span>`;
  if (trouble.value) return html`<${Chip} look="bad">stale since ${age(now.value - trouble.value.at)}<//>`;
  if (!state.value) return html`<span class="quiet">connecting…</span>`;
  return html`<${Chip} look="good">live<//>`;
}

function Figures() {
  const snapshot = state.value;
  const held = locks.value.filter((lock) => lock.holders.length || lock.silent.length).length;
  const waiting = locks.value.reduce((sum, lock) => sum + lock.waiters.length, 0);
  const deadlocks = Object.keys(snapshot.deadlocks).length;
  const rate = rates.value.at(-1);
  return html`<ul class="figures">
    <li><b>${held}</b>held</li>
    <li><b>${waiting}</b>waiting</li>
    <li class=${deadlocks ? "bad" : ""}><b>${deadlocks}</b>${deadlocks === 1 ? "deadlock" : "deadlocks"}</li>
    ${Object.keys(snapshot.programs).length > 0 && html`<li><b>${Object.keys(snapshot.programs).length}</b>programs</li>`}
    ${rate !== undefined && hasMessages() && html`<li><b>${rate.toFixed(0)}</b>messages/s</li>`}
    ${snapshot.notes.map((note) => html`<li key=${note} class="quiet">${note}</li>`)}
  </ul>`;
}

const hasMessages = () => Object.values(state.value.nodes).some((node) => Object.keys(node.messages).length > 0);

function Deadlocks() {
  return Object.values(state.value.deadlocks).map((deadlock) => html`<section key=${deadlock.name} class="notice bad" role="alert">
    <h2>Deadlock, a ${deadlock.kind} of ${deadlock.core.length}: ${deadlock.name}</h2>
    <ol>${deadlock.sentences.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ol>
  </section>`);
}

function Nodes() {
  const nodes = Object.values(state.value.nodes);
  if (nodes.length === 0) return null;
  const headings = [...new Set(nodes.flatMap((node) => Object.keys(node.facts)))];
  return html`<div class="card wide"><table>
    <caption>Nodes</caption>
    <thead><tr><th scope="col">name</th><th scope="col">address</th><th scope="col">state</th><th scope="col">up</th>
      ${headings.map((heading) => html`<th key=${heading} scope="col">${heading}</th>`)}</tr></thead>
    <tbody>${nodes.map((node) => html`<tr key=${node.name}>
      <td>${node.name}</td><td class="mono">${node.address}</td><td><${Chip} look=${node.look}>${node.state}<//></td>
      <td class="age">${node.started === null ? "" : age(now.value - node.started)}</td>
      ${headings.map((heading) => html`<td key=${heading}>${node.facts[heading] ?? ""}</td>`)}
    </tr>`)}</tbody>
  </table>
  ${hasMessages() && rates.value.length > 1 && html`<p class="quiet">messages a second, the last ${rates.value.length} looks, ${Math.max(...rates.value).toFixed(0)} at most</p>
    <${Sparkline} values=${rates.value} label="messages a second over the last minutes" />`}
  </div>`;
}

function Locks() {
  return html`<div class="card wide">
    <label class="filter">filter <input type="search" value=${search.value} onInput=${(event) => { search.value = event.currentTarget.value; }} /></label>
    ${locks.value.length === 0 ? html`<${Nothing} />` : html`<table>
      <caption>Locks (${shown.value.length} of ${locks.value.length}), the oldest waiter first</caption>
      <thead><tr><th scope="col">lock</th><th scope="col">holder</th><th scope="col" class="number">token</th><th scope="col">held</th><th scope="col">waited</th>
        <th scope="col">lease</th><th scope="col" class="number">waiting</th><th scope="col">oldest wait</th></tr></thead>
      <tbody>${shown.value.map((lock) => html`<${LockRow} key=${lock.name} lock=${lock} />`)}</tbody>
    </table>`}
  </div>`;
}

function Nothing() {
  return html`<p>Nothing is held. Try: <code>coterie lock --url '${url.value}' nightly -- sleep 10</code></p>`;
}

function LockRow({ lock }) {
  const open = chosen.value === lock.name;
  const holders = [...lock.holders, ...lock.silent.map((owner) => ({ owner, silent: true }))];
  const first = holders[0];
  function toggle() {
    location.hash = open ? "" : `lock=${encodeURIComponent(lock.name)}`;
  }
  return html`<tr class=${open ? "chosen" : ""}>
      <td class="name"><button type="button" class="link" aria-expanded=${open} onClick=${toggle}>${lock.name}</button></td>
      <td>${first ? html`<${Holder} holder=${first} />` : html`<span class="quiet">none</span>`}
        ${holders.length > 1 && html`<span class="quiet"> and ${holders.length - 1} more</span>`}</td>
      <td class="number mono">${first?.token ?? ""}</td>
      <td class="age">${first?.since ? age(now.value - first.since) : ""}</td>
      <td class="age">${first?.waited == null ? "" : age(first.waited)}</td>
      <td class="age">${first && html`<${Lease} owner=${first.owner} />`}</td>
      <td class="number">${lock.waiters.length || ""}</td>
      <td class="age">${lock.waiters.length ? age(now.value - oldest(lock)) : ""}</td>
    </tr>
    ${open && html`<tr class="chosen"><td colspan="8"><${Queue} lock=${lock} holders=${holders} /></td></tr>`}`;
}

function Holder({ holder }) {
  if (holder.silent) return html`<${Chip} look="warning">${holder.owner} does not answer<//>`;
  return html`<span class="mono">${holder.owner}</span>${holder.shared && html`<span class="quiet"> shared</span>`}
    ${holder.note && html`<span class="quiet"> ${holder.note}</span>`}`;
}

function Lease({ owner }) {
  const program = state.value.programs[owner];
  if (!program || program.expires === null) return html`<span class="quiet">–</span>`;
  const left = Math.max(0, program.expires - now.value);
  const share = Math.min(100, 100 * left / (state.value.lease ?? left));
  return html`<span class="lease" aria-hidden="true"><span style=${{ width: `${share}%` }}></span></span>
    <span> ${left > 0 ? age(left) : "over"}</span>`;
}

function Queue({ lock, holders }) {
  return html`<div>
    ${holders.length > 1 && html`<p>Holders: ${holders.map((holder, i) => html`<span key=${i}>${i > 0 && ", "}<${Holder} holder=${holder} /></span>`)}</p>`}
    ${lock.waiters.length === 0 ? html`<p class="quiet">Nothing waits for it.</p>` : html`<table>
      <caption>Waiting for ${lock.name}, the next first</caption>
      <thead><tr><th scope="col" class="number">place</th><th scope="col">waiter</th><th scope="col">waits</th><th scope="col">why</th></tr></thead>
      <tbody>${lock.waiters.map((waiter, i) => html`<tr key=${i}>
        <td class="number">${i + 1}</td><td class="mono">${waiter.owner}${waiter.shared && " (shared)"}</td>
        <td class="age">${age(now.value - waiter.since)}</td><td>${waiter.why}</td></tr>`)}</tbody>
    </table>`}
    <p class="quiet">As a command: <code>coterie status waiters --url '${url.value}'</code></p>
  </div>`;
}

const waits = computed(() => locks.value.some((lock) => lock.waiters.length > 0));
const graph = signal(""); // the drawing
effect(() => {
  const number = graphNumber.value;
  if (!waits.value) return;
  fetch(`/api/cluster/graph.svg?${number}`).then((answer) => (answer.ok ? answer.text() : "")).then((drawn) => { if (number === graphNumber.value) graph.value = drawn; }, () => {});
});

function Graph() {
  return html`<section class="card"><h2>What waits for what</h2>
    ${waits.value
      ? graph.value && html`<${Drawing} svg=${graph.value} label="wait-for graph; the tables say the same in words" />`
      : html`<p class="quiet">Nothing waits.</p>`}
  </section>`;
}

function Events() {
  return html`<section class="card"><h2>Events</h2>
    <p class="quiet">Changes between two looks, seen since a page was first open; ${eventsKept.value} kept, ${EVENTS_KEPT} shown at most.</p>
    <ol class="events" tabindex="0" aria-label="events, the newest first">${[...events.value].reverse().map((event, i) => html`<li key=${events.value.length - i}>
      <time>${clock(event.at)}</time><${Chip} look=${event.look}>${event.text}<//></li>`)}</ol>
  </section>`;
}

function Page() {
  const snapshot = state.value;
  return html`<${Top} />
    <main>
      ${trouble.value && html`<div class="notice warning" role="status"><h2>No answer since ${age(now.value - trouble.value.at)}</h2>
        <p>${trouble.value.error}</p>${snapshot && html`<p>What is shown is what was last known.</p>`}</div>`}
      ${snapshot && html`<div class=${trouble.value ? "stale" : ""}>
        <${Figures} /><${Deadlocks} />
        <div class="cards"><${Locks} /><${Nodes} /><${Graph} /><${Events} /></div>
      </div>`}
    </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
open();
