// What the dashboard knows: the last look with its changes, what was counted since the page was opened, and the stream.
import { age, clock, now, setClock } from "../ui.js";
import { SharedStream } from "../stream.js";
import { computed, signal } from "../vendor/signals.js";

const LOOKS_KEPT = 900; // about fifteen minutes
const EVENTS_KEPT = 500;

export const state = signal(null); // the snapshot, with changes applied
export const url = signal("");
export const trouble = signal(null);
export const events = signal([]);
export const eventsKept = signal(0);
export const graphNumber = signal(0);
export const looks = signal([]); // {at, waiting, rate}: of each look; the rate is of messages a second, or null
export const paused = signal(false);

// The stream

const WORDS = {
  lost: "the program that serves this page does not answer",
  refused: "this page has no token, or that of a program that has ended: open the address that coterie has printed",
};

const stream = new SharedStream("/api/cluster/stream", take, () => state.value && {
  snapshot: state.value, url: url.value, events: events.value, events_kept: eventsKept.value, trouble: trouble.value,
});

function take(kind, data) {
  if (kind === "first") takeFirst(data);
  else if (kind === "delta") takeDelta(data);
  else if (kind === "trouble") trouble.value = data;
  else trouble.value = { at: trouble.value?.at ?? now.value, error: WORDS[kind] };
}

export function open() {
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
  noteLook(null, first.snapshot);
  trouble.value = first.trouble ?? null;
}

function takeDelta(delta) {
  const old = state.value;
  if (old === null) return;
  setClock(delta.at);
  const merged = { ...old, at: delta.at, took: delta.took, look: delta.look, health: delta.health, notes: delta.notes };
  for (const part of ["nodes", "programs", "locks", "deadlocks"]) merged[part] = merge(old[part], delta[part]);
  noteLook(old, merged);
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

export const hasMessages = () => Object.values(state.value.nodes).some((node) => Object.keys(node.messages).length > 0);

/** Add up what the nodes have counted that answered both looks and were not started between them. */
function rateOf(old, fresh) {
  const passed = fresh.at - old.at;
  let counted = 0;
  for (const [name, node] of Object.entries(fresh.nodes)) {
    const before = old.nodes[name];
    if (before && messagesOf(before) > 0) counted += Math.max(0, messagesOf(node) - messagesOf(before));
  }
  return passed > 0 ? counted / passed : null;
}

function noteLook(old, fresh) {
  const waiting = Object.values(fresh.locks).reduce((sum, lock) => sum + lock.waiters.length, 0);
  looks.value = [...looks.value, { at: fresh.at, waiting, rate: old && rateOf(old, fresh) }].slice(-LOOKS_KEPT);
}

export function pause() {
  paused.value = !paused.value;
  if (paused.value) close();
  else open();
}

// Locks, the worst first

export const oldest = (lock) => Math.min(Infinity, ...lock.waiters.map((waiter) => waiter.since));

/** How bad it stands about a lock: a wait that cannot end, a holder that does not answer, then the longest wait. */
function badness(lock, stuck) {
  if (lock.waiters.some((waiter) => stuck.has(waiter.owner)) && lock.holders.some((holder) => stuck.has(holder.owner))) return 2;
  return lock.silent.length > 0 ? 1 : 0;
}

export const stuck = computed(() => new Set(Object.values(state.value?.deadlocks ?? {}).flatMap((deadlock) => deadlock.core)));

export const locks = computed(() => Object.values(state.value?.locks ?? {}).map((lock) => ({ ...lock, bad: badness(lock, stuck.value) }))
  .sort((a, b) => b.bad - a.bad || oldest(a) - oldest(b) || (a.name < b.name ? -1 : 1)));

export const longestWait = computed(() => Math.min(Infinity, ...locks.value.map(oldest)));

/** The moment for which ages are shown: that of the last look where the page does not follow any more. */
export const moment = computed(() => (state.value && (paused.value || trouble.value) ? state.value.at : now.value));

const LOOK_SECONDS = 1; // a longer look is said to be long: all that it shows was true at some moment of it

/** When what is shown was true. */
export function stamp() {
  if (!state.value) return "";
  const { at, took } = state.value;
  return took > LOOK_SECONDS ? `${clock(at)}, by a look of ${age(took)}` : clock(at);
}
