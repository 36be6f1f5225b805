// The diagram of a run: a line for each process, time to the right, what could come next behind the cursor.
import { html } from "../ui.js";
import { cursor, fates, go, isConcurrent, looked, make, moves, place, steps } from "./run.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { computed, signal } from "../vendor/signals.js";

const LEFT = 56; // for the names
const TOP = 34; // for the axis
const LANE = 64;
const STEP = 58;
const GHOST = 30; // between two possible moves on one line
const SHOWN_MAX = 120; // steps drawn at once; the others are a click away

export const hovered = signal(null); // a message under the pointer

/** Messages with where they start and end, and the phases of each process, from the steps alone. */
export const layout = computed(() => {
  const messages = new Map();
  const phases = new Map(); // process -> [[step, phase]]
  const marks = [];
  for (const step of steps.value) {
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
});

const x = (step, from) => LEFT + (step - from) * STEP;
const y = (process) => TOP + (process - 0.5) * LANE;

export function Picture() {
  const frame = useRef(null);
  useEffect(() => { // keep the reader's place in sight
    const box = frame.current;
    const at = box?.querySelector(".cursor")?.x1.baseVal.value;
    if (at === undefined) return;
    if (at + 3 * STEP > box.scrollLeft + box.clientWidth || at - 2 * STEP < box.scrollLeft) box.scrollLeft = at - box.clientWidth / 2;
  });
  if (place.value === null) return null;
  const size = place.value.size;
  const from = Math.max(0, cursor.value - SHOWN_MAX);
  const to = Math.min(moves.value.length, from + SHOWN_MAX + 40);
  const ghosts = ghostsOf(place.value);
  const room = Math.max(1, ...ghosts.map((ghost) => ghost.place + 1));
  const width = Math.max(x(to, from) + 60, x(cursor.value, from) + 40 + room * GHOST + 30);
  const height = TOP + size * LANE + 6;
  const point = fates.value?.no_return;
  return html`<div class="picture-frame" ref=${frame} tabindex="0" role="group" aria-label="the run as a diagram; the list of events below says the same in words">
    <svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" class="run">
      <${Axis} from=${from} to=${to} height=${height} />
      ${point != null && point >= from && html`<g class="no-return">
        <line x1=${x(point, from) - STEP / 2} x2=${x(point, from) - STEP / 2} y1="16" y2=${height} />
        <text x=${x(point, from) - STEP / 2 + 4} y="28">point of no return</text></g>`}
      ${Array.from({ length: size }, (_, i) => html`<${Lane} key=${i} process=${i + 1} from=${from} to=${to} width=${width} />`)}
      ${layout.value.messages.filter((message) => (message.end ?? to) >= from && message.start <= to).map((message) => html`<${Arrow} key=${message.number} message=${message} from=${from} />`)}
      <${Dots} from=${from} to=${to} />
      ${layout.value.marks.filter((mark) => mark.step >= from && mark.step <= to).map((mark, i) => html`<${Mark} key=${i} mark=${mark} from=${from} />`)}
      <line class="cursor" x1=${x(cursor.value, from) + STEP / 2 - 8} x2=${x(cursor.value, from) + STEP / 2 - 8} y1="4" y2=${height} />
      ${ghosts.map((ghost) => html`<${Ghost} key=${ghost.move.text} ghost=${ghost} from=${from} />`)}
    </svg></div>`;
}

function Axis({ from, to }) {
  const ticks = [];
  for (let step = from; step <= to; step += 1) {
    ticks.push(html`<text key=${step} class="tick ${step === cursor.value ? "here" : ""}" x=${x(step, from)} y="14" onClick=${() => go(step)}>${step}</text>`);
  }
  return ticks;
}

function Lane({ process, from, to, width }) {
  const changes = layout.value.phases.get(process) ?? [];
  const bars = [];
  changes.forEach(([step, phase], i) => {
    const end = changes[i + 1]?.[0] ?? to + 0.45;
    if (phase !== "idle" && end > from) {
      const kind = phase === "inside" ? "inside" : phase === "crashed" ? "crashed" : phase === "waiting" ? "waiting" : "other";
      bars.push(html`<line key=${step} class="phase ${kind} ${step > cursor.value ? "future" : ""}" x1=${x(Math.max(step, from), from)} x2=${x(end, from)} y1=${y(process)} y2=${y(process)} />`);
    }
  });
  return html`<g>
    <text class="name" x="10" y=${y(process) + 5}>p${process}</text>
    <line class="lane" x1=${LEFT - 12} x2=${width - 8} y1=${y(process)} y2=${y(process)} />
    ${bars}
  </g>`;
}

/** What happened, above the arrows, so that it can be pointed at. */
function Dots({ from, to }) {
  return steps.value.filter((step) => step.process > 0 && step.number >= from && step.number <= to && step.number > 0).map((step) => html`<circle key=${step.number}
    class="event ${step.number > cursor.value ? "future" : ""} ${isConcurrent(step.number) ? "concurrent" : ""}" cx=${x(step.number, from)} cy=${y(step.process)} r=${looked.value === step.number ? 7 : 4.5}
    onPointerEnter=${() => { looked.value = step.number; }} onPointerLeave=${() => { looked.value = null; }} onClick=${() => go(step.number)}><title>${step.number}: ${step.move}</title></circle>`);
}

function Arrow({ message, from }) {
  if (message.start > cursor.value && message.start > moves.value.length) return null;
  const pending = message.end === null || message.end > cursor.value;
  const ghostly = message.start > cursor.value;
  const end = message.end ?? Math.max(cursor.value, message.start) + 0.42;
  const x1 = x(message.start, from), y1 = y(message.sender);
  let x2 = x(end, from), y2 = y(message.receiver);
  if (message.end === null || message.lost) { // it ends on its way
    const share = message.lost ? 0.7 : 0.55;
    x2 = x1 + (x2 - x1) * share; y2 = y1 + (y2 - y1) * share;
  }
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const tip = `${x2},${y2} ${x2 - 8 * Math.cos(angle - 0.4)},${y2 - 8 * Math.sin(angle - 0.4)} ${x2 - 8 * Math.cos(angle + 0.4)},${y2 - 8 * Math.sin(angle + 0.4)}`;
  const kinds = ["message", pending && "pending", ghostly && "future", message.lost && "lost", hovered.value === message.number && "hovered",
    (isConcurrent(message.start) || (message.end !== null && isConcurrent(message.end))) && "concurrent"];
  return html`<g class=${kinds.filter(Boolean).join(" ")} onPointerEnter=${() => { hovered.value = message.number; }} onPointerLeave=${() => { hovered.value = null; }}>
    <title>${message.sender} > ${message.receiver} ${message.label}</title>
    <line class="reach" x1=${x1} y1=${y1} x2=${x2} y2=${y2} />
    <line x1=${x1} y1=${y1} x2=${x2} y2=${y2} />
    ${message.lost ? html`<text class="cross" x=${x2} y=${y2 + 5}>✕</text>` : html`<polygon points=${tip} />`}
    <text class="label" x=${x1 + (x2 - x1) * 0.45 + 5} y=${y1 + (y2 - y1) * 0.45 - 3}>${message.label}</text>
  </g>`;
}

function Mark({ mark, from }) {
  const at = [x(mark.step, from), y(mark.process)];
  if (mark.kind === "violation") return html`<text class="violation" x=${at[0]} y=${at[1] - 14}>✕ violated<title>${mark.text}</title></text>`;
  return html`<text class="fault" x=${at[0]} y=${at[1] - 10}>${mark.kind === "crashed" ? "✕ crash" : "↻ restart"}</text>`;
}

/** Possible moves that are no faults, as circles on the line of the process that would move. */
function ghostsOf(here) {
  const used = new Map();
  return here.enabled.filter((move) => !move.fault).map((move, index) => {
    const lane = used.get(move.process) ?? 0;
    used.set(move.process, lane + 1);
    return { move, index, place: lane };
  });
}

function Ghost({ ghost, from }) {
  const { move, index, place: spot } = ghost;
  const fate = fates.value?.moves[move.text];
  const cx = x(cursor.value, from) + STEP / 2 + 14 + spot * GHOST;
  const message = move.kind === "deliver" ? place.value.transit.find((each) => each.sender === move.peer && each.receiver === move.process && (!move.name || each.label === move.name || each.label.startsWith(move.name))) : null;
  const sent = message && layout.value.messages.find((each) => each.number === message.number);
  const word = fate ? `${fate.word}${fate.moves ? ` in ${fate.moves}` : ""}` : "";
  function press(event) {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); make(move.text); }
  }
  return html`<g class="ghost ${fate?.word ?? "unknown"}" role="button" tabindex="0" aria-label="${index < 9 ? `${index + 1} ` : ""}${fate ? `${fate.sign} ` : ""}${move.text}${word && `: ${word}`}" onClick=${() => make(move.text)} onKeyDown=${press}>
    <title>${move.text}${fate ? `: ${fate.text}` : ""}</title>
    ${sent && html`<line class="reach-back" x1=${x(sent.start, from)} y1=${y(sent.sender)} x2=${cx} y2=${y(move.process)} />`}
    <circle cx=${cx} cy=${y(move.process)} r="12" />
    <text x=${cx} y=${y(move.process) + 4}>${index < 9 ? index + 1 : "·"}</text>
    ${fate && html`<text class="sign" x=${cx} y=${y(move.process) + 25}>${fate.sign}</text>`}
  </g>`;
}
