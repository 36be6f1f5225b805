// A run as a diagram of space and time: geometry and drawing, of any run. A line for each process, time to the right,
// what could come next behind the cursor, and below it what each place leads to.
import { html } from "../ui.js";
import { kindOf } from "./kinds.js";

const TOP = 34; // for the axis
const LEFT = 26;
const END = 26; // behind the last step
const STRIP = 34; // for the fates
const RADIUS = 15; // of a possible move
const SLOT = 46; // between two of them on one line
const STEP_MIN = 58;
const STEP_MAX = 190;
const LETTER = 7.1; // of a label, in the mean
const PLACED_MAX = 80; // messages whose labels look for a free place; of more, every label stays in the middle

/** Messages with where they start and end, phases of processes, and marks, from the steps alone. */
export function layoutOf(steps) {
  const messages = new Map();
  const phases = new Map(); // process -> [[step, phase]]
  const marks = [];
  for (const step of steps) {
    for (const record of step.records) {
      if (record.kind === "sent") {
        messages.set(record.number, { ...record, start: step.number, end: null, lost: false });
      } else if (record.kind === "delivered") {
        const message = messages.get(record.number);
        if (message) message.end = message.end ?? step.number;
      } else if (record.kind === "dropped") {
        const message = messages.get(record.number);
        // One that was repeated has arrived already; its copy is lost.
        if (message && message.end === null) { message.end = step.number; message.lost = true; }
      } else if (record.kind === "crashed" || (record.kind === "started" && step.number > 0)) {
        marks.push({ step: step.number, process: record.process, kind: record.kind });
      }
    }
    for (const state of step.states) {
      if (!phases.has(state.process)) phases.set(state.process, []);
      phases.get(state.process).push([step.number, state.phase]);
    }
    if (step.violation) marks.push({ step: step.number, process: step.process, kind: "violation", text: step.violation.text });
  }
  return { messages: [...messages.values()], phases, marks };
}

/** The message that a move delivers or loses, of those that are under way. */
export function messageOf(move, transit) {
  if (move.kind !== "deliver") return null;
  return transit.find((each) => each.sender === move.peer && each.receiver === move.process && (!move.name || each.label.startsWith(move.name))) ?? null;
}

/** Where everything stands. `lanes` are the processes that are shown; `free` the moves that could come next. */
export class Geometry {
  constructor({ lanes, from, to, cursor, free, width, zoom = 1, row = 84, min = STEP_MIN, max = STEP_MAX }) {
    Object.assign(this, { lanes, from, to, cursor, row });
    const perLane = new Map();
    this.slots = new Map();
    for (const move of free) {
      const place = perLane.get(move.process) ?? 0;
      perLane.set(move.process, place + 1);
      this.slots.set(move.text, place);
    }
    const most = Math.max(0, ...perLane.values());
    this.zone = most ? 40 + most * SLOT : 0;
    const count = to - from, room = width - LEFT - END - this.zone;
    const least = most ? Math.max(3, Math.min(6, Math.floor(room / 120))) : 1; // so that the first moves are not as wide as the page
    this.step = Math.max(min, Math.min(max, room / Math.max(least, count + (most ? 0.25 : 0.7)))) * zoom;
    this.width = Math.max(width, LEFT + END + this.zone + (count + 0.3) * this.step);
    this.laneY = new Map(lanes.map((process, i) => [process, TOP + 30 + i * row]));
    this.height = TOP + 30 + Math.max(0, lanes.length - 1) * row + 46 + STRIP;
    this.bottom = this.height - STRIP;
  }

  x(number) { return LEFT + (number - this.from) * this.step + (number > this.cursor ? this.zone : 0); }

  y(process) { return this.laneY.get(process); }

  slotX(move) { return this.x(this.cursor) + 40 + this.slots.get(move.text) * SLOT; }

  /** Where the piece of a step begins on the strip of fates. */
  begin(number) {
    if (number === this.from) return 0;
    return number === this.cursor + 1 && this.zone ? this.x(this.cursor) + this.zone + 1 : this.x(number) - this.step / 2;
  }

  piece(number) {
    const last = number === this.to;
    const end = last ? (this.zone && this.cursor === number ? this.x(number) + this.zone : this.width - 8) : this.begin(number + 1);
    return [this.begin(number) + 1, end - 1];
  }
}

/** Each message as a line with both ends, and the move that would deliver it. */
function flightsOf(layout, geometry, free, transit) {
  const { cursor, from, to } = geometry;
  const delivering = new Map(free.map((move) => [messageOf(move, transit)?.number, move]));
  const flights = [];
  for (const message of layout.messages) {
    if ((message.end ?? to) < from || message.start > to || geometry.y(message.sender) === undefined || geometry.y(message.receiver) === undefined) continue;
    const isFuture = message.start > cursor;
    const isOnWay = !isFuture && (message.end === null || message.end > cursor);
    const x1 = geometry.x(Math.max(message.start, from)), y1 = geometry.y(message.sender);
    let x2 = geometry.x(message.end ?? to), y2 = geometry.y(message.receiver), back = 8;
    if (isOnWay) {
      const move = delivering.get(message.number);
      if (move) { x2 = geometry.slotX(move); back = RADIUS + 3; }
      else { x2 = Math.max(x1 + 20, geometry.x(cursor) + Math.min(geometry.step, 80) * 0.45); y2 = y1 + (y2 - y1) * 0.45; back = 0; }
    } else if (message.end === null || message.lost) { // it ends on its way
      const share = message.lost ? 0.7 : 0.5;
      if (message.end === null) x2 = Math.min(geometry.width - 12, x1 + geometry.step);
      x2 = x1 + (x2 - x1) * share; y2 = y1 + (y2 - y1) * share; back = 0;
    }
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    flights.push({ message, isFuture, isOnWay, x1: x1 + ux * 6, y1: y1 + uy * 6, x2: x2 - ux * back, y2: y2 - uy * back, ux, uy });
  }
  return flights;
}

const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** Whether a line passes through a box, by cutting it at each side (Liang and Barsky, 1984). */
function crosses({ x1, y1, x2, y2 }, [left, top, right, bottom]) {
  let enter = 0, leave = 1;
  for (const [step, room] of [[x1 - x2, x1 - left], [x2 - x1, right - x1], [y1 - y2, y1 - top], [y2 - y1, bottom - y1]]) {
    if (step === 0) { if (room < 0) return false; }
    else if (step < 0) enter = Math.max(enter, room / step);
    else leave = Math.min(leave, room / step);
  }
  return enter <= leave;
}

/** Give each label the place along its line that covers least. */
function placeLabels(flights, geometry, taken) {
  const dense = flights.length > PLACED_MAX;
  for (const flight of flights) {
    const wide = flight.message.label.length * LETTER + 8;
    const slope = Math.abs((flight.y2 - flight.y1) / (flight.x2 - flight.x1 || 1)), over = 11 + slope * wide / 2;
    const sides = over > 30 ? [[wide / 2 + 8, 0], [-wide / 2 - 8, 0]] : [[0, -over], [0, over], [wide / 2 + 8, 0], [-wide / 2 - 8, 0]];
    let best = null;
    for (const share of dense ? [0.5] : [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82]) {
      for (const [dx, dy] of dense ? sides.slice(0, 1) : sides) {
        const x = flight.x1 + (flight.x2 - flight.x1) * share + dx, y = flight.y1 + (flight.y2 - flight.y1) * share + dy;
        const box = [x - wide / 2, y - 9, x + wide / 2, y + 9];
        let cost = Math.abs(share - 0.5);
        if (box[0] < 2 || box[2] > geometry.width - 2) cost += 40;
        if (box[1] < TOP - 8 || box[3] > geometry.bottom) cost += 20;
        if (!dense) {
          cost += 10 * taken.filter((other) => overlap(box, other)).length;
          for (const lane of geometry.laneY.values()) if (Math.abs(y - lane) < 17) cost += 6;
          for (const other of flights) if (crosses(other, box)) cost += other === flight ? 8 : 5;
        }
        if (best === null || cost < best.cost) best = { cost, x, y, box };
      }
    }
    taken.push(best.box);
    flight.label = best;
  }
}

/** What labels must not cover: dots, the cursor, possible moves and their words. */
function obstacles(steps, geometry, free, isDown) {
  const around = (x, y, w, h) => [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
  const taken = [around(geometry.x(geometry.cursor), geometry.height / 2, 6, geometry.height)];
  for (const step of steps) if (step.process && geometry.y(step.process) !== undefined) taken.push(around(geometry.x(step.number), geometry.y(step.process), 14, 14));
  for (const move of free) {
    if (geometry.y(move.process) === undefined) continue;
    taken.push(around(geometry.slotX(move), geometry.y(move.process), 36, 36));
    taken.push(around(geometry.slotX(move), geometry.y(move.process) + (isDown(move) ? RADIUS + 13 : -RADIUS - 12), 44, 18));
  }
  return taken;
}

const isDown = (move) => !(move.kind === "deliver" && move.peer > move.process); // its word stands on the side from which no message comes

/** The names of the processes, which stay where they are while the run is moved. */
export function Names({ geometry, states, width, onHide }) {
  return html`<svg class="names" width=${width} height=${geometry.height} aria-hidden=${onHide ? undefined : "true"}>
    ${geometry.lanes.map((process) => {
      const phase = states.find((each) => each.process === process)?.phase ?? "";
      const press = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); onHide(process); } };
      const more = onHide ? { role: "button", tabindex: "0", "aria-label": `p${process} ${phase}: hide its line`, onClick: () => onHide(process), onKeyDown: press } : {};
      return html`<g key=${process} class="name" ...${more}><rect x="8" y=${geometry.y(process) - 20} width=${width - 14} height="46" />
        <text class="who" x="18" y=${geometry.y(process) + 2}>p${process}${" "}</text><text class="doing ${phase}" x="18" y=${geometry.y(process) + 19}>${phase}</text></g>`;
    })}
    <text class="doing" x="18" y=${geometry.height - 7}>leads to</text></svg>`;
}

/**
 * The run. `run` has steps, cursor, states, transit, free moves, their fates, the fates of all places (history), and the
 * point of no return; `look` has what is pointed at. What is pressed is told to onMove and onStep.
 */
export function Diagram({ run, geometry, layout, look = {}, onMove, onStep, onLook, children }) {
  const { cursor, from, to } = geometry;
  const seen = run.steps.filter((step) => step.number >= from && step.number <= to && step.number > 0 && geometry.y(step.process) !== undefined);
  const free = run.free.filter((move) => geometry.y(move.process) !== undefined);
  const flights = flightsOf(layout, geometry, free, run.transit);
  const taken = obstacles(seen, geometry, free, isDown);
  for (const mark of layout.marks) if (geometry.y(mark.process)) taken.push([geometry.x(mark.step) - 34, geometry.y(mark.process) - 30, geometry.x(mark.step) + 34, geometry.y(mark.process) - 10]);
  placeLabels(flights, geometry, taken);
  const faint = (number) => (look.isConcurrent?.(number) ? "concurrent" : "");
  return html`<svg width=${geometry.width} height=${geometry.height} viewBox="0 0 ${geometry.width} ${geometry.height}" class="run">
    <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" /></pattern></defs>
    ${geometry.zone > 0 && html`<rect class="next-zone" x=${geometry.x(cursor) + 6} y="6" width=${geometry.zone - 6} height=${geometry.bottom - 8} rx="4" />
      <text class="next-word" x=${geometry.x(cursor) + geometry.zone / 2 + 4} y="24">next</text>`}
    ${geometry.lanes.map((process) => html`<${Lane} key=${process} process=${process} geometry=${geometry} changes=${layout.phases.get(process) ?? []} />`)}
    ${Array.from({ length: to - from + 1 }, (_, i) => from + i).map((number) => html`<text key=${number} class="tick ${number === cursor ? "here" : ""} ${number > cursor ? "future" : ""}" x=${geometry.x(number)} y="24"
      onClick=${() => onStep?.(number)}>${number === 0 ? "start" : number}</text>`)}
    <${Strip} geometry=${geometry} history=${run.history} point=${run.noReturn} />
    ${flights.map((flight) => html`<${Flight} key=${flight.message.number} flight=${flight} isFaint=${look.isConcurrent?.(flight.message.start) || (flight.message.end !== null && look.isConcurrent?.(flight.message.end))} />`)}
    <line class="cursor" x1=${geometry.x(cursor)} x2=${geometry.x(cursor)} y1="32" y2=${geometry.bottom} />
    ${seen.map((step) => html`<circle key=${step.number} class="event ${step.number > cursor ? "future" : ""} ${faint(step.number)} ${look.found?.has(step.number) ? "found" : ""}"
      cx=${geometry.x(step.number)} cy=${geometry.y(step.process)} r=${look.step === step.number ? 9 : 6.5}
      onPointerEnter=${() => onLook?.(step.number)} onPointerLeave=${() => onLook?.(null)} onClick=${() => onStep?.(step.number)}><title>${step.number}: ${step.move}</title></circle>`)}
    ${layout.marks.filter((mark) => mark.step >= from && mark.step <= to && geometry.y(mark.process) !== undefined).map((mark, i) => html`<${Mark} key=${i} mark=${mark} geometry=${geometry} />`)}
    ${free.map((move) => html`<${Ghost} key=${move.text} move=${move} number=${run.free.indexOf(move) + 1} fate=${run.fates?.[move.text]} geometry=${geometry} onMove=${onMove} isLit=${look.move === move.text} />`)}
    ${children}</svg>`;
}

function Lane({ process, geometry, changes }) {
  const y = geometry.y(process), bars = [];
  changes.forEach(([step, phase], i) => {
    if (step > geometry.cursor || phase === "idle") return;
    const next = changes[i + 1]?.[0] ?? Infinity;
    const end = next <= geometry.cursor ? geometry.x(next) : geometry.x(geometry.cursor) + (geometry.zone || geometry.cursor < geometry.to ? 4 : 40);
    const begin = geometry.x(Math.max(step, geometry.from));
    if (end <= begin) return;
    const kind = ["inside", "waiting", "crashed"].includes(phase) ? phase : "other";
    const tall = { inside: 16, waiting: 10, crashed: 4, other: 6 }[kind];
    bars.push(html`<rect key=${step} class="bar ${kind}" x=${begin} y=${y - tall / 2} width=${end - begin} height=${tall} rx="2" />`);
  });
  return html`<g><line class="lane" x1="0" x2=${geometry.width} y1=${y} y2=${y} />${bars}</g>`;
}

/** What each place leads to: a piece for each step, a word where it changes. */
function Strip({ geometry, history, point }) {
  const y = geometry.height - 12;
  let free = 0; // where the next word may stand
  const pieces = [];
  history.forEach((fate, number) => {
    if (!fate || number < geometry.from || number > geometry.to) return;
    const [begin, end] = geometry.piece(number);
    const isNoReturn = number === point;
    const said = isNoReturn ? "point of no return" : fate.word;
    const isNew = number === geometry.from || fate.word !== history[number - 1]?.word || isNoReturn;
    const isShown = isNew && (begin >= free || isNoReturn);
    if (isShown) free = begin + said.length * LETTER + 12;
    pieces.push(html`<g key=${number} class="is-${fate.word} ${number > geometry.cursor ? "future" : ""}"><title>${number}: ${fate.word}</title>
      ${isNoReturn && html`<line class="no-return" x1=${begin} x2=${begin} y1="34" y2=${y} />`}
      <rect class="fate-strip" x=${begin} y=${y} width=${Math.max(2, end - begin)} height="6" rx="3" />
      ${isShown && html`<text class="fate-word" x=${begin + 3} y=${y - 6}>${said}</text>`}</g>`);
  });
  return pieces;
}

function Flight({ flight, isFaint }) {
  const { message, x1, y1, x2, y2, ux, uy, label } = flight;
  const kinds = ["message", `k-${kindOf(message.label)}`, flight.isOnWay && "on-way", flight.isFuture && "future", message.lost && "lost", isFaint && "concurrent"].filter(Boolean).join(" ");
  return html`<g class=${kinds} data-number=${message.number}><title>${message.sender} > ${message.receiver} ${message.label}</title>
    <line x1=${x1} y1=${y1} x2=${x2 - ux * 6} y2=${y2 - uy * 6} />
    ${message.lost && !flight.isOnWay ? html`<text class="cross" x=${x2} y=${y2 + 5}>✕</text>`
      : html`<path d="M${x2} ${y2}L${x2 - ux * 10 - uy * 4.5} ${y2 - uy * 10 + ux * 4.5}L${x2 - ux * 10 + uy * 4.5} ${y2 - uy * 10 - ux * 4.5}Z" />`}
    <text class="label" x=${label.x} y=${label.y + 4.5}>${message.label}</text></g>`;
}

function Mark({ mark, geometry }) {
  const x = geometry.x(mark.step), y = geometry.y(mark.process) - 14, shown = mark.step > geometry.cursor ? "future" : "";
  if (mark.kind === "violation") return html`<text class="violation ${shown}" x=${Math.min(x, geometry.width - 40)} y=${y}>✕ violated<title>${mark.text}</title></text>`;
  return html`<text class="fault ${shown}" x=${x} y=${y}>${mark.kind === "crashed" ? "✕ crash" : "↻ restart"}</text>`;
}

/** A possible move, as a circle where it would happen. */
function Ghost({ move, number, fate, geometry, onMove, isLit }) {
  const x = geometry.slotX(move), y = geometry.y(move.process);
  const word = fate ? `${fate.word}${fate.moves ? ` in ${fate.moves}` : ""}` : "";
  function press(event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); onMove(move.text); }
  }
  return html`<g class="ghost is-${fate?.word ?? "open"} ${isLit ? "lit" : ""}" role="button" tabindex="0" aria-label="${number < 10 ? number : "·"}${word && ` ${word}`}: ${move.text}" onClick=${() => onMove(move.text)} onKeyDown=${press}>
    <title>${move.text}${fate ? `: ${fate.text}` : ""}</title>
    <circle cx=${x} cy=${y} r=${RADIUS} /><text x=${x} y=${y + 5}>${number < 10 ? number : "·"}${" "}</text>
    ${fate && html`<text class="badge" x=${x} y=${isDown(move) ? y + RADIUS + 16 : y - RADIUS - 7}>${fate.word}</text>`}</g>`;
}

const TRAVEL_MILLISECONDS = 180;

export const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Let a message travel along its line, unless motion is not wanted; return what ends it early. */
export function travel(frame, number, milliseconds = TRAVEL_MILLISECONDS) {
  const group = isStill() ? null : frame?.querySelector(`.message[data-number="${number}"]`);
  const line = group?.querySelector("line");
  if (!line) return () => {};
  const [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map((name) => Number(line.getAttribute(name)));
  const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  dot.setAttribute("class", "traveller");
  dot.setAttribute("r", "7");
  group.append(dot);
  const begun = performance.now();
  let next = 0;
  const move = (now) => {
    const share = Math.max(0, Math.min(1, (now - begun) / milliseconds)), eased = 1 - (1 - share) ** 2;
    dot.setAttribute("cx", x1 + (x2 - x1) * eased);
    dot.setAttribute("cy", y1 + (y2 - y1) * eased);
    if (share < 1) next = requestAnimationFrame(move);
    else dot.remove();
  };
  move(begun);
  return () => { cancelAnimationFrame(next); dot.remove(); };
}
