// Locks as rows, the worst first: who holds, since when, and the queue in its order; one of them unfolds.
import { Chip, age, clock, html } from "../ui.js";
import { computed, signal } from "../vendor/signals.js";
import { EndHold } from "./break.js";
import { events, locks, moment, oldest, state, stuck, url } from "./state.js";

const NAME_SHOWN = 36; // letters of a long name; the middle is left out until its row is opened
const QUEUE_SHOWN = 4;
const HISTORY_SHOWN = 20;

const short = (name) => (name.length <= NAME_SHOWN ? name : `${name.slice(0, NAME_SHOWN / 2 - 1)}…${name.slice(-NAME_SHOWN / 2)}`);

const search = signal("");
const chosen = signal(lockInAddress());

function lockInAddress() {
  const found = /^#lock=(.*)$/.exec(location.hash);
  try { return found ? decodeURIComponent(found[1]) : ""; } catch { return ""; }
}
addEventListener("hashchange", () => { chosen.value = lockInAddress(); });

const people = (lock) => [...lock.holders, ...lock.waiters].flatMap((each) => [each.owner, each.note ?? ""]);
const shown = computed(() => {
  const wanted = search.value.trim().toLowerCase();
  return locks.value.filter((lock) => !wanted || [lock.name, ...people(lock)].some((text) => text.toLowerCase().includes(wanted)));
});

export function Locks() {
  return html`<section class="locks" aria-labelledby="locks-title"><div class="section-line"><h2 id="locks-title">Locks</h2>
      <span class="quiet small">${shown.value.length} of ${locks.value.length}, the worst first</span><span class="spring"></span>
      <label class="small">filter <input type="search" placeholder="lock, program or host" value=${search.value} onInput=${(event) => { search.value = event.currentTarget.value; }} /></label></div>
    ${locks.value.length === 0 ? html`<p class="empty">Nothing is held. Try: <code>coterie lock --url '${url.value}' nightly -- sleep 10</code></p>`
      : html`<ul class="lock-list">${shown.value.map((lock) => html`<${Lock} key=${lock.name} lock=${lock} />`)}</ul>`}</section>`;
}

function Lock({ lock }) {
  const open = chosen.value === lock.name;
  const holders = [...lock.holders, ...lock.silent.map((owner) => ({ owner, silent: true }))];
  const toggle = () => { location.hash = open ? "" : `lock=${encodeURIComponent(lock.name)}`; };
  const wait = lock.waiters.length > 0 ? age(moment.value - oldest(lock)) : "";
  return html`<li class="lock ${lock.bad === 2 ? "is-broken" : lock.bad === 1 ? "is-risky" : ""}"><div class="lock-line">
      <div class="lock-name"><button type="button" class="link" title=${lock.name} aria-expanded=${open} onClick=${toggle}>${open ? lock.name : short(lock.name)}</button></div>
      <ul class="holders" aria-label="held by">${holders.length === 0 ? html`<li class="quiet">nobody</li>` : holders.slice(0, open ? undefined : 2).map((holder, i) => html`<${Holder} key=${i} holder=${holder} />`)}
        ${!open && holders.length > 2 && html`<li class="quiet small">and ${holders.length - 2} more</li>`}</ul>
      <ol class="queue" aria-label="waiting, in order">${lock.waiters.length === 0 ? html`<li class="quiet">nobody waits</li>` : lock.waiters.slice(0, open ? undefined : QUEUE_SHOWN).map((waiter, i) => html`<${Waiter} key=${i} waiter=${waiter} place=${i + 1} isOpen=${open} />`)}
        ${!open && lock.waiters.length > QUEUE_SHOWN && html`<li class="quiet small">and ${lock.waiters.length - QUEUE_SHOWN} more</li>`}</ol>
      <div class="longest ${lock.bad === 2 ? "bad" : ""}"><span class="hidden-text">longest wait </span>${wait || "–"}</div></div>
    ${open && html`<${More} lock=${lock} />`}</li>`;
}

function Holder({ holder }) {
  if (holder.silent) return html`<li><${Chip} look="warning">${holder.owner} does not answer<//></li>`;
  return html`<li class="holder"><div><span class="mono">${holder.owner}</span>${holder.shared && html`<span class="quiet"> shared</span>`}
      ${holder.note && html`<span class="quiet"> ${holder.note}</span>`}</div>
    <div class="small"><span class=${stuck.value.has(holder.owner) ? "bad" : "held"}>${holder.since ? `held ${age(moment.value - holder.since)}` : "held"}</span>${holder.waited != null && html`<span class="quiet">, waited ${age(holder.waited)}</span>`}</div>
    <div class="row small quiet"><${Lease} owner=${holder.owner} />${holder.token && html`<${Token} token=${holder.token} />`}</div></li>`;
}

const copied = signal("");

/** The end of a token, and the whole of it for a paste; it guards what the lock protects, so it is looked for in logs. */
function Token({ token }) {
  async function copy() {
    try { await navigator.clipboard.writeText(token); copied.value = token; } catch { copied.value = ""; }
    setTimeout(() => { copied.value = ""; }, 2000);
  }
  return html`<span>token <span class="mono" title=${token}>${token.length > 7 ? `…${token.slice(-6)}` : token}</span> <button type="button" class="link" aria-label="copy token ${token}" onClick=${copy}>${copied.value === token ? "copied" : "copy"}</button></span>`;
}

function Lease({ owner }) {
  const program = state.value.programs[owner];
  if (!program || program.expires === null) return null;
  const left = Math.max(0, program.expires - moment.value);
  const share = Math.min(100, 100 * left / (state.value.lease ?? left));
  return html`<span><span class="lease" aria-hidden="true"><span style=${{ width: `${share}%` }}></span></span> lease ${left > 0 ? age(left) : "over"}</span>`;
}

function Waiter({ waiter, place, isOpen }) {
  return html`<li class="waiter"><div><span class="quiet">${place}</span> <span class="mono">${waiter.owner}</span>${waiter.shared && html`<span class="quiet"> shared</span>`}</div>
    <div class="small ${stuck.value.has(waiter.owner) ? "bad" : "waits"}">waits ${age(moment.value - waiter.since)}</div>${isOpen && html`<div class="small quiet">${waiter.why}</div>`}</li>`;
}

/** What this page has seen of a lock, and what ends a hold. */
function More({ lock }) {
  const history = events.value.filter((event) => event.text.startsWith(`${lock.name}: `)).slice(-HISTORY_SHOWN).reverse();
  return html`<div class="lock-more"><h3>History</h3>
    ${history.length === 0 ? html`<p class="empty">No change has been seen since a page was first open.</p>`
      : html`<ol class="plain-list">${history.map((event, i) => html`<li key=${i}><time>${clock(event.at)}</time> ${event.text.slice(lock.name.length + 2)}</li>`)}</ol>`}
    <${EndHold} lock=${lock}><p class="quiet small">This page only looks. On a command line: <code>coterie status waiters --url '${url.value}'</code>;
      to end the hold of a program that cannot be stopped otherwise, <code>coterie break</code>.</p><//></div>`;
}
