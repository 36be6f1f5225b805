// The run that is played: a first line and moves, where the reader stands, and what the server says of it.
import { batch, computed, signal } from "../vendor/signals.js";

export const DEFAULT = "maekawa 3 variant=basic";
const PLACES_KEPT = 500;
const UNDO_KEPT = 200;
const PLAIN_MAX = 2000; // characters of an address; a longer one is packed
const FIRST_MILLISECONDS = 150; // until something is said of a place, be it not all
const SEARCH_MILLISECONDS = 10_000; // that a person who asked for a violation waits
export const BOUNDS = { entries: 9, crashes: 4, losses: 4, duplicates: 4, suspicions: 4 }; // at most
const FAULTS = { crash: "crashes", drop: "losses", repeat: "duplicates", suspect: "suspicions" };

export const first = signal(DEFAULT);
export const moves = signal([]);
export const cursor = signal(0);
const NO_FAULTS = { entries: 1, crashes: 0, losses: 0, duplicates: 0, suspicions: 0 };
export const bound = signal(NO_FAULTS);
export const branches = signal([]); // other futures that were left: {moves}
// What a challenge or a lesson has given: {path, moves, bound}. Its address has the path in place of the first line.
export const task = signal(null);
export const hidden = signal(false); // where moves lead, so that a challenge is one
export const catalogue = signal([]);

export const steps = signal([]); // of the whole run, the start first
export const codes = signal([]);
export const place = signal(null); // what the server says of where the reader stands
export const fates = signal(null);
export const searching = signal(false);
export const problem = signal(null); // what the server refused: {error, at, possible}
export const outcome = signal(""); // of a search for a violation that has found none
export const said = signal(""); // the last step in words, for those who hear the page

const places = new Map(); // answers by the moves that lead to them: a place does not depend on the future
const judged = new Map();
const past = [];
const future = [];

/** Faults and entries that the run has made already count as possible. */
export const effectiveBound = computed(() => {
  if (saved) return saved.bound;
  const used = { ...NO_FAULTS };
  const entries = {};
  const crashed = new Set();
  for (const move of moves.value) {
    const [verb, process, , receiver] = move.split(" ");
    // To lose a message whose receiver has crashed is no fault.
    if (FAULTS[verb] && !(verb === "drop" && crashed.has(receiver))) used[FAULTS[verb]] += 1;
    if (verb === "crash") crashed.add(process);
    if (verb === "restart") crashed.delete(process);
    if (verb === "acquire" || verb === "elect") {
      entries[process] = (entries[process] ?? 0) + 1;
      used.entries = Math.max(used.entries, entries[process]);
    }
  }
  const result = {};
  for (const [name, chosen] of Object.entries(bound.value)) result[name] = Math.min(BOUNDS[name], Math.max(chosen, used[name]));
  return result;
});

// Asking

class Refused extends Error {
  constructor(status, answer) {
    super(answer.error ?? `the server answers ${status}`);
    this.status = status;
    this.answer = answer;
  }
}

// A page that was saved as a file has its answers with it: those along one run, or a whole map.
const embedded = document.getElementById("answers");
export const saved = embedded && JSON.parse(embedded.textContent);
const map = saved?.map ? await import("coterie/lab/map.js") : null; // by the import map of that file
const ELSEWHERE = "this file holds one run: open it in the laboratory to leave it, with coterie lab";

function answerFromFile(path, body) {
  const all = saved.places.at(-1).position;
  const cursorOf = (text) => Number(/@(\d+)$/.exec(text)?.[1] ?? all.moves.length);
  if (path === "/api/catalogue") return [saved.entry];
  if (path === "/api/open") return { first: all.first, moves: all.moves, cursor: Math.min(all.moves.length, cursorOf(body.address)) };
  const place = saved.places[body.cursor], whole = saved.places.at(-1);
  const along = place && body.first === all.first && JSON.stringify(body.moves) === JSON.stringify(all.moves);
  const answer = along && {
    "/api/play": { ...place.position, moves: all.moves, codes: all.codes, known: 0, steps: saved.steps },
    "/api/fates": place.fates ? { ...place.fates, history: whole.fates?.history ?? [] } : { moves: {}, here: null, why: [], properties: [], history: [], searched: { text: "", complete: true } },
  }[path];
  if (!answer) throw new Refused(400, { error: ELSEWHERE });
  return answer;
}

// The server answers the newest search of each page.
const PAGE = crypto.getRandomValues(new Uint32Array(2)).join("-");

/** Ask the server, and return its response; throw what it refuses. */
export async function request(path, body, signal) {
  const response = await fetch(path, body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json", "Coterie-Page": PAGE }, body: JSON.stringify(body), signal,
  });
  if (response.ok) return response;
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  throw new Refused(response.status, isJson ? await response.json() : { error: await response.text() });
}

export async function ask(path, body, signal) {
  if (map) return map.answer(saved, path, body);
  return saved ? answerFromFile(path, body) : (await request(path, body, signal)).json();
}

let searched = new AbortController();

/** Ask for a search, and wait no longer for the one before. */
function search(path, body) {
  searched.abort();
  searched = new AbortController();
  return ask(path, body, searched.signal);
}

/** Show why something did not work. */
export function complain(error) {
  problem.value = error.answer ?? { error: `the server does not answer: ${error.message}`, unreachable: true };
}

function remember(map, key, value) {
  map.delete(key);
  map.set(key, value);
  if (map.size > PLACES_KEPT) map.delete(map.keys().next().value);
}

const keyOf = (line, made) => JSON.stringify([line, made]);

let asked = 0;
let arriving = Promise.resolve(); // until the place where the reader stands is known
let queue = Promise.resolve();

/** Do something when the place is known: keys may be pressed faster than a server answers. */
export function soon(action) {
  queue = queue.then(async () => {
    await arriving;
    action();
    await arriving;
  }).catch(complain);
}

/** Leave the page for another one: what is asked of this one is worth no answer any more. */
export function leavePage() {
  asked += 1;
  searched.abort();
}

/** Bring the page up to date with the run: the place at once, what it leads to when it is known. */
function refresh() {
  const mine = ++asked;
  outcome.value = "";
  arriving = arrive(mine).then((known) => { if (known) judge(mine); });
}

async function arrive(mine) {
  const line = first.value;
  const here = keyOf(line, moves.value.slice(0, cursor.value));
  const known = places.get(here);
  if (known && stepsFit()) {
    batch(() => { place.value = known; problem.value = null; });
  } else {
    try {
      const shared = sharedSteps();
      const answer = await ask("/api/play", { first: line, moves: moves.value, cursor: cursor.value, known: shared });
      if (mine !== asked) return false;
      batch(() => {
        // `run` comes back as the moves that it stood for, and a move that cannot be played is cut off.
        const grown = answer.moves.length - moves.value.length;
        const atEnd = cursor.value >= moves.value.length;
        moves.value = answer.moves;
        cursor.value = atEnd || grown > 0 ? Math.min(cursor.value + Math.max(grown, 0), answer.moves.length) : answer.cursor;
        steps.value = [...steps.value.slice(0, answer.known), ...answer.steps];
        stepsOf = line;
        codes.value = answer.codes;
        problem.value = answer.refusal;
        place.value = answer;
      });
      if (answer.cursor !== cursor.value) return arrive(mine);
      remember(places, keyOf(line, answer.moves.slice(0, answer.cursor)), answer);
    } catch (error) {
      if (mine !== asked) return false;
      batch(() => {
        complain(error);
        if (error instanceof Refused || arrived === null) { place.value = null; fates.value = null; steps.value = []; }
        else { first.value = arrived.first; moves.value = arrived.moves; cursor.value = arrived.cursor; } // the run is here, without the server
      });
      return false;
    }
  }
  arrived = { first: line, moves: moves.value, cursor: cursor.value };
  writeAddress();
  speak();
  return true;
}

let arrived = null; // the last run that the server has answered for

let stepsOf = null; // the first line of the run whose steps are here

/** How many steps at the beginning of the run are here already. */
function sharedSteps() {
  if (stepsOf !== first.value) return 0;
  let shared = Math.min(1, steps.value.length);
  while (shared > 0 && shared < steps.value.length && steps.value[shared].move === moves.value[shared - 1]) shared += 1;
  return shared;
}

const stepsFit = () => steps.value.length === moves.value.length + 1 && sharedSteps() === steps.value.length;

async function judge(mine) {
  if (hidden.value) { fates.value = null; searching.value = false; return; }
  const question = { first: first.value, moves: moves.value, cursor: cursor.value, bound: effectiveBound.value };
  const key = JSON.stringify(question);
  const known = judged.get(key);
  if (known) { fates.value = known; searching.value = false; return; }
  searching.value = true;
  try {
    let answer = await search("/api/fates", { ...question, budget_ms: FIRST_MILLISECONDS });
    if (mine !== asked) return;
    if (!answer.searched.complete && !saved) {
      fates.value = answer; // what is in sight at once; the whole follows
      answer = await search("/api/fates", question);
      if (mine !== asked) return;
    }
    remember(judged, key, answer);
    fates.value = answer;
    searching.value = false;
  } catch (error) {
    if (mine !== asked) return;
    batch(() => { fates.value = null; searching.value = false; complain(error); });
  }
}

// The address is the run, with what could happen in it

export const playAddress = signal(""); // of the last run that was no task

async function writeAddress() {
  const mine = asked;
  const list = codes.value.map((code) => encodeURIComponent(code).replace(/%(28|29|2C|3D|3A|5B|5D)/gi, decodeURIComponent));
  const line = encodeURIComponent(first.value).replace(/%(3D|2C|3A)/gi, decodeURIComponent);
  const body = `${[line, ...list].join("/")}@${cursor.value}${boundsText(NO_FAULTS)}`;
  const text = task.value ? taskAddress(list) : `#/${body.length <= PLAIN_MAX ? `run/${body}` : `z/${await packed(body)}`}`;
  if (mine === asked && !task.value) playAddress.value = text;
  try {
    if (mine === asked && location.hash !== text) history.replaceState(null, "", text);
  } catch { /* a page inside another has no address of its own */ }
  document.title = `${first.value} · coterie lab`;
}

/** What an address says of the bounds, where they are others than those that it begins with. */
function boundsText(usual) {
  const changed = Object.entries(bound.value).filter(([name, count]) => count !== usual[name]);
  return changed.length > 0 ? `?${changed.map(([name, count]) => `${name}=${count}`).join("&")}` : "";
}

/** A challenge counts from what it gives; a lesson lets the reader leave that, so its address has all moves. */
function taskAddress(list) {
  const { path, lesson } = task.value;
  if (!lesson) return `#/${[path, ...list.slice(task.value.moves.length)].join("/")}`;
  const bounds = boundsText(task.value.bound);
  const untouched = !bounds && cursor.value === list.length && moves.value.join("\n") === task.value.moves.join("\n");
  return untouched ? `#/${path}` : `#/${[path, ...list].join("/")}@${cursor.value}${bounds}`;
}

/** Deflate, then base64 with the letters of addresses. */
async function packed(body) {
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export async function openAddress(text) {
  if (!saved && (!text || text === "#")) { start(first.value, [], 0); return; }
  const mine = ++asked;
  try {
    const found = await ask("/api/open", { address: text });
    if (mine !== asked) return;
    bound.value = { ...NO_FAULTS, ...found.bounds };
    start(found.first, found.moves, found.cursor ?? found.moves.length);
  } catch (error) {
    complain(error);
  }
}

function start(line, made, at, given = null) {
  batch(() => {
    first.value = line; moves.value = made; cursor.value = at; branches.value = []; fates.value = null;
    task.value = given; hidden.value = given !== null && !given.lesson;
  });
  refresh();
}

/** Show where moves lead in spite of a challenge. */
export function reveal() {
  hidden.value = false;
  refresh();
}

// What the reader does

const standing = () => ({
  first: first.value, moves: moves.value, cursor: cursor.value, branches: branches.value, bound: bound.value, task: task.value, hidden: hidden.value,
});

function keep() {
  past.push(standing());
  if (past.length > UNDO_KEPT) past.shift();
  future.length = 0;
}

function restore(from, to) {
  const saved = from.pop();
  if (!saved) return;
  to.push(standing());
  batch(() => {
    first.value = saved.first; moves.value = saved.moves; cursor.value = saved.cursor;
    branches.value = saved.branches; bound.value = saved.bound; task.value = saved.task; hidden.value = saved.hidden; fates.value = null;
  });
  refresh();
}

export const undo = () => restore(past, future);
export const redo = () => restore(future, past);

/** Make a move where the reader stands; in the past this is a branch, and the old future is kept. */
export const make = (text) => soon(() => makeNow(text));

export function makeNow(text) {
  // A second click of a double click may come when the move is not possible any more.
  if (place.value === null || (text !== "run" && !place.value.enabled.some((move) => move.text === text))) return;
  if (saved && !map) {
    if (text === "run") go(moves.value.length);
    else if (text === moves.value[cursor.value]) go(cursor.value + 1);
    else problem.value = { error: ELSEWHERE };
    return;
  }
  keep();
  const made = moves.value.slice(0, cursor.value);
  batch(() => {
    if (cursor.value < moves.value.length) leave(moves.value);
    moves.value = [...made, text];
    cursor.value = made.length + 1;
    fates.value = null;
  });
  refresh();
}

function leave(old) {
  if (branches.value.some((branch) => branch.moves.join("\n") === old.join("\n"))) return;
  branches.value = [...branches.value, { moves: old }].slice(-20);
}

export function go(to) {
  const at = Math.max(0, Math.min(moves.value.length, to));
  if (at === cursor.value) return;
  batch(() => { cursor.value = at; fates.value = null; });
  refresh();
}

export function takeBranch(branch) {
  keep();
  batch(() => {
    branches.value = branches.value.filter((each) => each !== branch);
    leave(moves.value);
    moves.value = branch.moves; cursor.value = branch.moves.length; fates.value = null;
  });
  refresh();
}

/** Begin a page of a lesson or a challenge; `run` is what the reader has made of it, with all moves. */
export function begin(page, path, { lesson = false, run = null } = {}) {
  keep();
  const allowed = { ...NO_FAULTS, ...page.bound };
  bound.value = { ...allowed, ...run?.bounds };
  const made = run?.moves ?? page.moves;
  start(page.first, made, run?.cursor ?? made.length, { path, lesson, moves: page.moves, bound: allowed });
}

/** Read the moves and bounds that stand behind the path of a task. */
export const readTask = (text) => ask("/api/open", { address: `#/run/-/${text}` });

export function choose(line) {
  keep();
  start(line, [], 0);
}

export function chooseBound(name, value) {
  keep();
  batch(() => { bound.value = { ...bound.value, [name]: value }; fates.value = null; });
  refresh();
}

/** Show the shortest way to a violation, from the start or from here. */
export async function findViolation(from) {
  const mine = ++asked;
  searching.value = true;
  try {
    const made = moves.value.slice(0, from);
    const way = await search("/api/way", { first: first.value, moves: made, cursor: made.length, bound: effectiveBound.value, budget_ms: SEARCH_MILLISECONDS });
    if (mine !== asked) return;
    searching.value = false;
    if (way.moves === null) {
      refresh();
      outcome.value = said.value = `No violation: ${way.searched.text}`;
      return;
    }
    keep();
    batch(() => {
      if (moves.value.length > made.length) leave(moves.value);
      moves.value = [...made, ...way.moves]; cursor.value = moves.value.length; fates.value = null;
    });
    refresh();
  } catch (error) {
    if (mine !== asked) return;
    searching.value = false;
    refresh();
    complain(error);
  }
}

function speak() {
  const step = steps.value[cursor.value];
  if (!step) return;
  const violated = step.violation ? `. ${step.violation.text}` : "";
  said.value = cursor.value === 0 ? "The start: nothing has happened yet." : `Move ${cursor.value}: ${step.move}${violated}`;
}

/** The states of all processes at the reader's place, as the steps tell them. */
export const states = computed(() => place.value?.states ?? []);

export const looked = signal(null); // a step that is pointed at

/** For each step, the steps that happened before it: on its process, and by messages. */
const pasts = computed(() => {
  const found = [new Set()];
  const last = new Map();
  const sent = new Map();
  for (const step of steps.value.slice(1)) {
    const past = new Set();
    const earlier = step.records.filter((record) => record.kind === "delivered").map((record) => sent.get(record.number));
    for (const number of [...earlier, last.get(step.process)]) {
      if (number) { past.add(number); for (const each of found[number] ?? []) past.add(each); }
    }
    found[step.number] = past;
    last.set(step.process, step.number);
    for (const record of step.records) if (record.kind === "sent") sent.set(record.number, step.number);
  }
  return found;
});

/** Whether a step is concurrent with the one that is pointed at: neither happened before the other. */
export function isConcurrent(number) {
  const at = looked.value;
  if (!at || at === number || !pasts.value[at] || !pasts.value[number]) return false;
  return !pasts.value[at].has(number) && !pasts.value[number].has(at);
}
