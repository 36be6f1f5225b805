// A whole map in place of a server: every state within a bound, so that all runs can be played from disk.
// A map has states and no messages' numbers: what a move sent is what is under way after it and was not before.

const BEST_FIRST = ["safe", "fragile", "open", "risky", "stalled", "doomed", "lost", "broken"];
const SHORT = { acquire: "a", release: "r", elect: "e", deliver: "d", drop: "x", repeat: "p", crash: "c", restart: "n", down: "w", suspect: "s" };
const FAULTS = new Set(["drop", "repeat", "suspect", "crash", "restart"]);
const LETTERS = new Set(["deliver", "drop", "repeat"]);

/** A command in parts, as the server writes a possible move. */
function parse(text) {
  const [verb, one, middle, other, ...rest] = text.split(" ");
  const fault = FAULTS.has(verb);
  if (LETTERS.has(verb)) {
    const name = rest.join(" ");
    return { text, code: `${SHORT[verb]}${one}.${other}${name && `.${name}`}`, kind: verb, process: Number(other), peer: Number(one), name, fault };
  }
  if (verb === "ring") return { text, code: `t${one}.${middle}`, kind: verb, process: Number(one), peer: 0, name: middle, fault };
  if (verb === "down" || verb === "suspect") return { text, code: `${SHORT[verb]}${one}.${middle}`, kind: verb, process: Number(one), peer: Number(middle), name: "", fault };
  if (fault) return { text, code: `${SHORT[verb]}${one}`, kind: verb, process: Number(one), peer: 0, name: "", fault };
  return { text, code: SHORT[verb] ? `${SHORT[verb]}${one}` : `k${one}.${verb}`, kind: "call", process: Number(one), peer: 0, name: verb, fault };
}

const messagesOf = (map, state) => state[1].map((number) => map.messages[number]);
const same = (message, [sender, receiver, label]) => message.sender === sender && message.receiver === receiver && message.label === label;
const meant = (message, move) => message.sender === move.peer && message.receiver === move.process && (!move.name || message.label === move.name);

function refuse(text) {
  const error = new Error(text);
  error.answer = { error: text };
  return error;
}

/** A run on the map: where it stands, what is under way, and the steps so far. */
class Walk {
  constructor(map) {
    this.map = map;
    this.at = 0;
    this.sent = 0;
    this.transit = [];
    this.path = [0];
    const records = this.receive([]);
    this.steps = [{ number: 0, move: "", code: "", kind: "start", process: 0, peer: 0, name: "", records, states: this.states(), violation: null }];
  }

  get state() { return this.map.states[this.at]; }

  states() { return this.state[0].map((number) => ({ ...this.map.processes[number], changed: [] })); }

  /** Note what is under way now and was not before; what went to a process that has crashed is forgotten. */
  receive(records) {
    const now = messagesOf(this.map, this.state);
    const left = [...this.transit];
    const kept = [];
    for (const message of now) {
      const known = left.findIndex((each) => same(each, message));
      if (known >= 0) { kept.push(left.splice(known, 1)[0]); continue; }
      this.sent += 1;
      const [sender, receiver, label] = message;
      kept.push({ number: this.sent, sender, receiver, label });
      records.push({ kind: "sent", number: this.sent, sender, receiver, label });
    }
    this.transit = kept.sort((a, b) => a.number - b.number);
    return records;
  }

  moves() { return this.at < 0 ? [] : this.state[3].map(([command, target]) => ({ ...parse(this.map.commands[command]), target })); }

  /** Make a move; return false if the map has none of that name. */
  make(text) {
    const move = this.moves().find((each) => each.text === text);
    if (!move) return false;
    const records = [];
    if (LETTERS.has(move.kind)) {
      const message = this.transit.find((each) => meant(each, move));
      records.push({ kind: move.kind === "drop" ? "dropped" : "delivered", number: message.number, sender: message.sender, receiver: message.receiver });
      if (move.kind !== "repeat") this.transit = this.transit.filter((each) => each !== message);
    }
    if (move.kind === "crash") records.push({ kind: "crashed", process: move.process });
    if (move.kind === "restart") records.push({ kind: "started", process: move.process });
    const { target, fault, ...step } = move;
    const before = this.states();
    this.at = target;
    this.path.push(target);
    if (target < 0) {
      const old = before[move.process - 1];
      this.steps.push({ ...step, number: this.steps.length, move: text, records, states: [old], violation: this.map.ends[-target - 1] });
      return true;
    }
    this.receive(records);
    const state = this.states()[move.process - 1];
    const changed = this.changed(before[move.process - 1], state);
    if (changed.includes("phase") && state.phase === "inside") records.push({ kind: "told", process: move.process, label: "Entered" });
    this.steps.push({ ...step, number: this.steps.length, move: text, records, states: [{ ...state, changed }], violation: null });
    return true;
  }

  changed(old, now) {
    const differs = (a, b) => JSON.stringify(a) !== JSON.stringify(b);
    return [...["phase", "timers", "watches"].filter((name) => differs(old[name], now[name])),
      ...Object.keys(now.fields).filter((name) => differs(old.fields[name], now.fields[name]))];
  }

  /** Deliver the oldest message, again and again, until nothing can be delivered. */
  run() {
    for (;;) {
      const moves = this.moves().filter((each) => each.kind === "deliver");
      const oldest = this.transit.map((message) => moves.find((move) => meant(message, move))).find(Boolean);
      if (!oldest) return;
      this.make(oldest.text);
    }
  }

  fate(target = this.at) {
    if (target >= 0) return this.map.fates[this.map.states[target][2]];
    const { name, text } = this.map.ends[-target - 1];
    return { word: "broken", sign: "✕", moves: 0, violated: name, text, is_final: true };
  }
}

function walk(map, moves) {
  const found = new Walk(map);
  for (const move of moves) {
    if (move === "run") found.run();
    else if (!found.make(move)) return { walk: found, refusal: { error: `cannot ${move} within what this file holds`, at: found.steps.length - 1, possible: found.moves().map((each) => each.text) } };
  }
  return { walk: found, refusal: null };
}

function judged(map, fate) {
  return map.properties.map((name) => {
    const holds = !(fate.violated === name || (fate.violated === "no deadlock" && name === "entry stays possible") || (fate.violated === "no failure" && name === "no error"));
    return { name, holds, text: holds ? "" : fate.text };
  });
}

function play(saved, body) {
  const { map } = saved;
  const whole = walk(map, body.moves);
  const { steps } = whole.walk;
  const end = steps.length - 1;
  const cursor = Math.max(0, Math.min(body.cursor ?? end, end));
  const here = walk(map, steps.slice(1, cursor + 1).map((step) => step.move)).walk;
  const last = here.steps.at(-1);
  const states = here.at < 0 ? walk(map, steps.slice(1, cursor).map((step) => step.move)).walk.states() : here.states();
  return {
    first: map.first, algorithm: saved.entry.name, size: map.size, variant: /variant=(\S+)/.exec(map.first)?.[1] ?? saved.entry.variants[0].name, channel: map.channel,
    moves: steps.slice(1).map((step) => step.move), codes: steps.slice(1).map((step) => step.code), cursor, known: 0, steps,
    states: states.map((state) => (cursor > 0 && last.states[0].process === state.process ? last.states[0] : state)),
    transit: here.transit, enabled: here.moves().map(({ target, ...move }) => move), properties: judged(map, here.fate()), why: [], notes: [], refusal: whole.refusal,
  };
}

/** After how many moves a run was past saving, and stayed so. */
function pointOfNoReturn(history) {
  let point = null;
  for (let moves = history.length - 1; moves >= 0 && history[moves].is_final; moves -= 1) point = moves;
  return point;
}

function fates(saved, body) {
  const { map } = saved;
  const whole = walk(map, body.moves).walk;
  const history = whole.path.map((target) => whole.fate(target));
  const cursor = Math.min(body.cursor, history.length - 1);
  const here = walk(map, whole.steps.slice(1, cursor + 1).map((step) => step.move)).walk;
  const point = pointOfNoReturn(history);
  return {
    cursor, here: here.fate(), moves: Object.fromEntries(here.moves().map((move) => [move.text, here.fate(move.target)])),
    searched: map.searched, properties: judged(map, here.fate()), why: [], history, no_return: point,
    blunder: point ? blunder(map, whole, point) : null,
  };
}

function blunder(map, whole, point) {
  const before = walk(map, whole.steps.slice(1, point).map((step) => step.move)).walk;
  const rank = (move) => BEST_FIRST.indexOf(before.fate(move.target).word);
  const final = (move) => (before.fate(move.target).is_final ? 1 : 0);
  const better = before.moves().sort((a, b) => final(a) - final(b) || rank(a) - rank(b) || a.fault - b.fault)[0];
  if (!better || final(better)) return null;
  const made = whole.steps[point].move, { word } = before.fate(better.target);
  return { number: point, move: made, better: better.text, better_code: better.code, word, text: `move ${point} was the blunder: ${made}; ${better.text} kept it ${word}` };
}

/** The fewest moves to where a violation shows. */
function way(saved, body) {
  const start = walk(saved.map, body.moves).walk;
  const seen = new Map([[start.at, null]]);
  const queue = [start.at];
  const shows = (at) => at < 0 || saved.map.fates[saved.map.states[at][2]].word === "broken";
  for (const at of queue) {
    if (shows(at)) {
      const moves = [];
      for (let place = at; seen.get(place); place = seen.get(place)[0]) moves.unshift(saved.map.commands[seen.get(place)[1]]);
      return { moves, codes: moves.map((text) => parse(text).code), searched: saved.map.searched, address: null };
    }
    for (const [command, target] of saved.map.states[at][3]) {
      if (!seen.has(target)) { seen.set(target, [at, command]); queue.push(target); }
    }
  }
  return { moves: null, codes: null, searched: saved.map.searched, address: null };
}

function open(saved, body) {
  const given = /^#\/run\/[^/]*?((?:\/[^@]*)?)(?:@(\d+))?$/.exec(body.address ?? "");
  if (!given) return { first: saved.map.first, moves: saved.moves, cursor: saved.moves.length };
  const known = new Map(saved.map.commands.map((text) => [parse(text).code, text]));
  let codes = [];
  try { codes = given[1].split("/").filter(Boolean).map(decodeURIComponent); } catch { /* what cannot be read is left out */ }
  const moves = codes.map((code) => known.get(code) ?? code);
  return { first: saved.map.first, moves, cursor: given[2] === undefined ? moves.length : Number(given[2]) };
}

/** Answer what a page asks, as the server would. */
export function answer(saved, path, body) {
  if (path === "/api/catalogue") return [saved.entry];
  if (path === "/api/open") return open(saved, body);
  if (body.first !== saved.map.first) throw refuse(`this file holds ${saved.map.first}: open another in the laboratory, with coterie lab`);
  const answers = { "/api/play": play, "/api/fates": fates, "/api/way": way };
  if (!answers[path]) throw refuse("this needs the laboratory: coterie lab");
  return answers[path](saved, body);
}
