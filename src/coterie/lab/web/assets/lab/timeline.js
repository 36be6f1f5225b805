// The diagram of a long run: a line for each process, time to the right, drawn on a canvas.
// Only what is in view is drawn, and of too many messages every so many.
import { html } from "../ui.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { ORDER, kindOf } from "./kinds.js";
import { placeLabels } from "./labels.js";

const LEFT = 46; // for the names
const RIGHT = 14;
const TOP = 26; // for the axis
const ARROWS_MAX = 4000; // drawn at once
const ALONE_MAX = 600; // drawn one by one, with their heads
const LABELS_MAX = 120;
const LABEL_FONT = "11px system-ui, sans-serif";
const DOTS_MAX = 1500;
const AROUND = 9; // events listed, the chosen one among them

/** What keys do in the diagram. */
export const KEYS = [["Tab", "to the diagram; in it:"], ["← →", "one event back, on"], ["Home End", "to the first event, to the last"], ["+ − 0", "zoom in, out, whole run"], ["Enter", "play from there"], ["?", "this sheet"]];

const known = new WeakMap(); // what is derived from columns, once for each

/** Where messages and events stand in time, so that what is in view is found by halving. */
export function indexOf(columns) {
  if (known.has(columns)) return known.get(columns);
  const { messages } = columns;
  let longest = 0;
  const counts = new Map(); // of messages, by name
  for (let i = 0; i < messages.sent.length; i += 1) {
    longest = Math.max(longest, (messages.arrived[i] ?? messages.lost[i] ?? columns.end) - messages.sent[i]);
    const name = nameOf(columns.texts[messages.text[i]]);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const index = { longest, counts };
  known.set(columns, index);
  return index;
}

export const isEntry = (text) => /^(Entered|Acquired)\b/.test(text);
const nameOf = (label) => label.split("(")[0];

/** The first place of a sorted list whose value is not below a limit. */
export function firstFrom(list, limit) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** When an event happened, as exactly as events of this run can be told apart. */
export const timeOf = (columns, i) => columns.events.time[i].toFixed(columns.end - columns.begin < 10 ? 3 : 2);

/** An event in words. */
export function sentence(columns, i) {
  const { events, texts } = columns;
  const me = events.process[i], peer = events.peer[i], text = texts[events.text[i]];
  switch (texts[events.kind[i]]) {
    case "called": return text === "acquire" ? `${me} asks to enter` : text === "release" ? `${me} leaves` : `${me} is told to ${text}`;
    case "delivered": return `${me} receives ${text} from ${peer}`;
    case "dropped": return `lost on the way from ${peer} to ${me}: ${text}`;
    case "told": return isEntry(text) ? `${me} enters` : `${me} says ${text}`;
    case "rang": return `timer ${text} of ${me} rings`;
    case "noticed": return `${me} hears that ${peer} is down`;
    case "crashed": return `${me} crashes`;
    case "started": return `${me} starts`;
    case "paused": return `${me} pauses`;
    case "resumed": return `${me} goes on`;
    case "repeated": return text;
    default: return `violated: ${text}`;
  }
}

export const whole = (columns) => {
  const margin = (columns.end - columns.begin || 1) * 0.02;
  return { from: columns.begin - margin, to: columns.end + margin };
};

export const newView = () => signal({ from: 0, to: 1 });

function zoomed(view, columns, factor, at) {
  const all = whole(columns);
  const middle = at ?? (view.from + view.to) / 2;
  const span = Math.min(all.to - all.from, Math.max((all.to - all.from) / 5000, (view.to - view.from) * factor));
  return within(middle - (middle - view.from) * span / (view.to - view.from), span, all);
}

function within(from, span, all) {
  const start = Math.max(all.from, Math.min(all.to - span, from));
  return { from: start, to: start + span };
}

/** Bring a time into view, if it is not. */
export function reveal(view, columns, time) {
  const { from, to } = view.value;
  if (time >= from && time <= to) return;
  view.value = within(time - (to - from) / 2, to - from, whole(columns));
}

const laneOf = (size) => (size <= 9 ? 54 : size <= 20 ? 32 : 17);

function colours(canvas) {
  const style = getComputedStyle(canvas);
  const named = (name) => style.getPropertyValue(`--${name}`).trim();
  const [paper, ink, soft, line, inside, waiting, crashed, violation, edge] = ["stage", "ink", "soft", "line", "inside-bar", "waiting-bar", "crashed", "violation", "edge"].map(named);
  return { paper, ink, soft, line, inside, waiting, crashed, violation, edge, kinds: ORDER.map(named) };
}

class Painter {
  constructor(canvas, columns, view, chosen, until, pointed) {
    const box = canvas.getBoundingClientRect();
    const dense = window.devicePixelRatio || 1;
    this.width = box.width;
    this.lane = laneOf(columns.size);
    this.height = TOP + columns.size * this.lane + 10;
    canvas.width = Math.round(this.width * dense);
    canvas.height = Math.round(this.height * dense);
    Object.assign(this, { columns, view, chosen, until, pointed, index: indexOf(columns), colour: colours(canvas) });
    this.pen = canvas.getContext("2d");
    this.pen.scale(dense, dense);
    this.pen.font = "12px system-ui, sans-serif";
  }

  x(time) { return LEFT + (time - this.view.from) / (this.view.to - this.view.from) * (this.width - LEFT - RIGHT); }
  y(process) { return TOP + (process - 0.5) * this.lane; }

  paint() {
    const { pen } = this;
    pen.clearRect(0, 0, this.width, this.height);
    this.axis();
    pen.save();
    pen.beginPath();
    pen.rect(LEFT - 8, 0, this.width - LEFT + 8, this.height);
    pen.clip();
    for (let process = 1; process <= this.columns.size; process += 1) this.stroke(LEFT - 8, this.y(process), this.width, this.y(process), this.colour.line, 1.5);
    this.arrows();
    this.stays();
    this.events();
    this.cursor();
    pen.restore();
    this.names();
  }

  stroke(x1, y1, x2, y2, colour, width, dash = []) {
    const { pen } = this;
    pen.strokeStyle = colour; pen.lineWidth = width; pen.setLineDash(dash);
    pen.beginPath(); pen.moveTo(x1, y1); pen.lineTo(x2, y2); pen.stroke();
    pen.setLineDash([]);
  }

  names() {
    const { pen } = this;
    pen.fillStyle = this.colour.ink; pen.textAlign = "left"; pen.font = "600 13px system-ui, sans-serif";
    const every = this.columns.size > 20 ? 4 : 1;
    for (let process = 1; process <= this.columns.size; process += every) pen.fillText(`p${process}`, 8, this.y(process) + 5);
  }

  axis() {
    const { pen } = this;
    const span = this.view.to - this.view.from;
    const rough = span / Math.max(2, (this.width - LEFT) / 90);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    pen.textAlign = "center"; pen.fillStyle = this.colour.soft; pen.font = "11px system-ui, sans-serif";
    for (let tick = Math.ceil(Math.max(this.view.from, this.columns.begin) / step) * step; tick <= this.view.to; tick += step) {
      if (tick > this.columns.end + step / 2) break;
      const x = this.x(tick);
      if (x < LEFT) continue;
      this.stroke(x, 18, x, this.height, this.colour.line, 0.5);
      pen.fillText(String(Number(tick.toFixed(6))), x, 13);
    }
  }

  stays() {
    const { stays, texts } = this.columns;
    for (let i = 0; i < stays.begin.length; i += 1) {
      if (stays.end[i] < this.view.from || stays.begin[i] > this.view.to) continue;
      if (this.until !== null && stays.begin[i] > this.until) continue;
      const end = this.until === null ? stays.end[i] : Math.min(stays.end[i], this.until);
      const y = this.y(stays.process[i]), x1 = this.x(stays.begin[i]), x2 = Math.max(this.x(end), x1 + 1.5);
      const kind = texts[stays.text[i]];
      if (kind === "inside") this.stroke(x1, y, x2, y, this.colour.inside, Math.min(12, this.lane / 2.4));
      else if (kind === "waiting") this.stroke(x1, y, x2, y, this.colour.waiting, 3.5, [3, 3]);
      else if (kind === "crashed") this.stroke(x1, y, x2, y, this.colour.crashed, 2.5, [1, 4]);
      else this.stroke(x1, y, x2, y, kind === "leads" ? this.colour.inside : this.colour.edge, kind === "leads" ? 8 : 4);
      if (kind === "crashed") this.text(x1, y - 8, "✕", this.colour.crashed);
      if (/^(leads|follows)/.test(kind) && x2 - x1 > 60) this.text(x1 + 30, y - 8, kind, this.colour.soft);
    }
  }

  text(x, y, said, colour, bold = false) {
    const { pen } = this;
    pen.textAlign = "center"; pen.font = `${bold ? "600 " : ""}${LABEL_FONT}`;
    pen.lineWidth = 3; pen.strokeStyle = this.colour.paper; pen.strokeText(said, x, y);
    pen.fillStyle = colour; pen.fillText(said, x, y);
  }

  /** The messages in view, each with both ends. */
  *shown() {
    const { messages } = this.columns;
    const begin = firstFrom(messages.sent, this.view.from - this.index.longest);
    const end = firstFrom(messages.sent, this.view.to);
    const every = Math.ceil((end - begin) / ARROWS_MAX) || 1;
    for (let i = begin; i < end; i += every) {
      const over = messages.arrived[i] ?? messages.lost[i] ?? this.columns.end;
      if (over < this.view.from || (this.until !== null && messages.sent[i] > this.until)) continue;
      yield this.flight(i, over);
    }
  }

  flight(i, over) {
    const { messages, texts } = this.columns;
    const cut = this.until !== null && over > this.until ? (this.until - messages.sent[i]) / (over - messages.sent[i]) : messages.arrived[i] === null ? 0.75 : 1;
    const x1 = this.x(messages.sent[i]), y1 = this.y(messages.sender[i]);
    const x2 = x1 + (this.x(over) - x1) * cut, y2 = y1 + (this.y(messages.receiver[i]) - y1) * cut;
    const label = texts[messages.text[i]];
    return { i, x1, y1, x2, y2, label, isLost: messages.lost[i] !== null && cut >= 0.75, kind: ORDER.indexOf(kindOf(label)) };
  }

  arrows() {
    const flights = [...this.shown()];
    const isFew = flights.length <= LABELS_MAX;
    this.flights = flights.length <= ARROWS_MAX / 4 ? flights : [];
    if (flights.length > ALONE_MAX) this.many(flights);
    else for (const each of flights) this.arrow(each);
    const named = flights.filter((each) => isFew || this.isPointed(each));
    this.labels(named);
  }

  arrow(each) {
    const colour = each.isLost ? this.colour.crashed : this.colour.kinds[each.kind];
    this.stroke(each.x1, each.y1, each.x2, each.y2, colour, this.pointed === each.i ? 2.6 : 1.2, each.isLost ? [5, 4] : []);
    this.head(each, colour);
  }

  /** So many that heads would cover them: one path for all of a colour, which is far quicker. */
  many(flights) {
    const paths = this.colour.kinds.map(() => new Path2D());
    for (const { kind, x1, y1, x2, y2 } of flights) {
      const path = paths[kind];
      path.moveTo(x1, y1);
      path.lineTo(x2, y2);
    }
    this.pen.lineWidth = 0.5;
    paths.forEach((path, kind) => { this.pen.strokeStyle = this.colour.kinds[kind]; this.pen.stroke(path); });
  }

  /** Whether a message is pointed at, or is sent or delivered by the chosen event. */
  isPointed({ i }) {
    const { events, messages } = this.columns;
    if (this.pointed === i) return true;
    if (this.chosen === null) return false;
    const time = events.time[this.chosen], process = events.process[this.chosen];
    return (messages.arrived[i] === time && messages.receiver[i] === process) || (messages.sent[i] === time && messages.sender[i] === process);
  }

  labels(flights) {
    this.pen.font = LABEL_FONT;
    const lines = Array.from({ length: this.columns.size }, (_, process) => [0, this.y(process + 1) - 6, this.width, this.y(process + 1) + 6]);
    const boxes = placeLabels(flights, (each) => this.pen.measureText(each.label).width, lines, [LEFT, TOP - 8, this.width, this.height], (each) => this.isPointed(each));
    flights.forEach((each, place) => {
      const box = boxes[place], isPointed = this.isPointed(each);
      if (box) this.text((box[0] + box[2]) / 2, box[3] - 3, each.label, isPointed ? this.colour.ink : this.colour.soft, isPointed);
    });
  }

  head({ x1, y1, x2, y2, isLost }, colour) {
    const { pen } = this;
    if (isLost) { this.text(x2, y2 + 4, "✕", colour); return; }
    const angle = Math.atan2(y2 - y1, x2 - x1);
    pen.fillStyle = colour;
    pen.beginPath(); pen.moveTo(x2, y2);
    for (const turn of [-0.4, 0.4]) pen.lineTo(x2 - 8 * Math.cos(angle + turn), y2 - 8 * Math.sin(angle + turn));
    pen.fill();
  }

  events() {
    const { events, texts } = this.columns;
    const begin = firstFrom(events.time, this.view.from), end = firstFrom(events.time, this.view.to);
    for (let i = begin; i < end; i += 1) {
      if (this.until !== null && events.time[i] > this.until) return;
      if (!events.process[i]) { // of all of them
        const isViolation = texts[events.kind[i]] === "violated";
        this.stroke(this.x(events.time[i]), 18, this.x(events.time[i]), this.height, this.colour.violation, 1.5, [4, 3]);
        this.text(Math.min(this.x(events.time[i]), this.width - 44), 26, isViolation ? "✕ violated" : "↻ again and again", this.colour.violation, true);
      } else if (end - begin <= DOTS_MAX) {
        this.pen.fillStyle = this.colour.ink;
        this.pen.beginPath(); this.pen.arc(this.x(events.time[i]), this.y(events.process[i]), this.lane > 30 ? 3 : 1.8, 0, 7); this.pen.fill();
      }
    }
  }

  cursor() {
    const { events } = this.columns;
    if (this.until !== null) this.stroke(this.x(this.until), 18, this.x(this.until), this.height, this.colour.ink, 1.5);
    if (this.chosen === null || this.chosen >= events.time.length) return;
    const x = this.x(events.time[this.chosen]);
    this.stroke(x, 16, x, this.height, this.colour.ink, 1.2, [6, 3]);
    if (!events.process[this.chosen]) return;
    this.pen.strokeStyle = this.colour.ink; this.pen.lineWidth = 2.2;
    this.pen.beginPath(); this.pen.arc(x, this.y(events.process[this.chosen]), 8, 0, 7); this.pen.stroke();
  }

  /** The event nearest to a place in the picture. */
  eventAt(px, py) {
    const { events } = this.columns;
    const time = this.view.from + (px - LEFT) / (this.width - LEFT - RIGHT) * (this.view.to - this.view.from);
    const middle = firstFrom(events.time, time);
    let best = null, least = Infinity;
    for (let i = Math.max(0, middle - 200); i < Math.min(events.time.length, middle + 200); i += 1) {
      const away = Math.hypot(this.x(events.time[i]) - px, (events.process[i] ? this.y(events.process[i]) : py) - py);
      if (away < least) { least = away; best = i; }
    }
    return best;
  }

  messageAt(px, py) {
    let best = null, least = 7;
    for (const { i, x1, y1, x2, y2 } of this.flights) {
      const length = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1;
      const along = Math.max(0, Math.min(1, ((px - x1) * (x2 - x1) + (py - y1) * (y2 - y1)) / length));
      const away = Math.hypot(x1 + along * (x2 - x1) - px, y1 + along * (y2 - y1) - py);
      if (away < least) { least = away; best = i; }
    }
    return best;
  }
}

/** The picture; `until` cuts it at a time, `chosen` is an event. */
export function Timeline({ columns, view, chosen = null, until = null, onChoose, onOpen, label }) {
  const canvas = useRef(null);
  const held = useRef({ painter: null, pointed: null, drag: null });
  const state = { columns, view: view.value, chosen, until };
  held.current.state = state;

  function paint() {
    const { state: now, pointed } = held.current;
    if (!canvas.current?.isConnected) return;
    held.current.painter = new Painter(canvas.current, now.columns, now.view, now.chosen, now.until, pointed);
    held.current.painter.paint();
  }
  useEffect(paint);
  useEffect(() => { // another size, another theme
    const sizes = new ResizeObserver(paint);
    sizes.observe(canvas.current);
    const themes = new MutationObserver(paint);
    themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", paint);
    const wheel = (event) => {
      const { view: now } = held.current.state;
      const at = now.from + (event.offsetX - LEFT) / (canvas.current.clientWidth - LEFT - RIGHT) * (now.to - now.from);
      if (event.ctrlKey) view.value = zoomed(now, held.current.state.columns, event.deltaY > 0 ? 1.25 : 0.8, at);
      else if (event.deltaX || event.shiftKey) view.value = within(now.from + (event.deltaX || event.deltaY) / canvas.current.clientWidth * (now.to - now.from), now.to - now.from, whole(held.current.state.columns));
      else return; // the page scrolls
      event.preventDefault();
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => { sizes.disconnect(); themes.disconnect(); dark.removeEventListener("change", paint); };
  }, []);

  function move(event) {
    const { drag, painter } = held.current;
    if (drag) {
      const span = drag.view.to - drag.view.from;
      if (Math.abs(event.clientX - drag.x) > 4) drag.moved = true;
      view.value = within(drag.view.from - (event.clientX - drag.x) / (canvas.current.clientWidth - LEFT - RIGHT) * span, span, whole(columns));
      return;
    }
    const found = painter?.messageAt(event.offsetX, event.offsetY) ?? null;
    if (found !== held.current.pointed) { held.current.pointed = found; paint(); }
  }
  function down(event) {
    held.current.drag = { x: event.clientX, view: view.value, moved: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  }
  function up(event) {
    const { drag, painter } = held.current;
    held.current.drag = null;
    if (drag && !drag.moved && onChoose && painter) {
      const found = painter.eventAt(event.offsetX, event.offsetY);
      if (found !== null) onChoose(found);
    }
  }
  function press(event) {
    const last = columns.events.time.length - 1;
    const step = (to) => { if (onChoose && last >= 0) onChoose(Math.max(0, Math.min(last, to))); };
    const middle = () => { // the chosen event stays where it is
      const time = chosen === null ? undefined : columns.events.time[chosen];
      return time >= view.value.from && time <= view.value.to ? time : undefined;
    };
    const actions = {
      ArrowRight: () => step(chosen === null ? firstFrom(columns.events.time, view.value.from) : chosen + 1),
      ArrowLeft: () => step(chosen === null ? 0 : chosen - 1),
      Home: () => step(0), End: () => step(last), Enter: () => onOpen?.(),
      "+": () => { view.value = zoomed(view.value, columns, 0.7, middle()); }, "-": () => { view.value = zoomed(view.value, columns, 1.4, middle()); }, 0: () => { view.value = whole(columns); },
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    actions[event.key]();
  }
  const height = TOP + columns.size * laneOf(columns.size) + 10;
  return html`<div class="picture-frame timeline" tabindex="0" role="group" aria-label=${label} onKeyDown=${press}>
    <canvas ref=${canvas} style="height: ${height}px" aria-hidden="true"
      onPointerMove=${move} onPointerDown=${down} onPointerUp=${up} onPointerLeave=${() => { held.current.pointed = null; paint(); }}></canvas></div>`;
}

/** Buttons to zoom, and a slider for the place. */
export function ViewBar({ columns, view, children }) {
  const all = whole(columns), span = view.value.to - view.value.from, room = all.to - all.from - span;
  const isWhole = room <= 1e-9;
  return html`<div class="row view-bar">
    <button type="button" aria-label="zoom in" onClick=${() => { view.value = zoomed(view.value, columns, 0.5); }}>+</button>
    <button type="button" aria-label="zoom out" disabled=${isWhole} onClick=${() => { view.value = zoomed(view.value, columns, 2); }}>−</button>
    <button type="button" disabled=${isWhole} onClick=${() => { view.value = whole(columns); }}>whole run</button>
    <label class="slider"><span class="hidden-text">place in time</span>
      <input type="range" min="0" max="1000" disabled=${isWhole} value=${isWhole ? 0 : Math.round((view.value.from - all.from) / room * 1000)}
        onInput=${(event) => { view.value = within(all.from + Number(event.currentTarget.value) / 1000 * room, span, all); }} /></label>
    ${children}</div>`;
}

export function Legend({ columns }) {
  const { counts } = indexOf(columns);
  const stays = [...new Set(columns.stays.text.map((text) => columns.texts[text].split(" ")[0]))];
  return html`<ul class="legend">
    ${stays.map((kind) => html`<li key=${kind}><span class="swatch ${kind}" aria-hidden="true"></span>${kind}</li>`)}
    ${[...counts].map(([name, count]) => html`<li key=${name}><span class="swatch message ${kindOf(name)}" aria-hidden="true"></span>${name} <span class="quiet">${count.toLocaleString("en")}</span></li>`)}</ul>`;
}

/** The events around the chosen one, in words: the twin of the picture for those who do not see it. */
export function Around({ columns, chosen, onChoose }) {
  const count = columns.events.time.length;
  const from = Math.max(0, Math.min(count - AROUND, (chosen ?? 0) - 3));
  const rows = Array.from({ length: Math.min(AROUND, count) }, (_, i) => from + i);
  return html`<section class="card"><h2>Events <span class="quiet">${(from + 1).toLocaleString("en")} to ${(from + rows.length).toLocaleString("en")} of ${count.toLocaleString("en")}</span></h2>
    <ol class="event-list around" start=${from + 1}>${rows.map((i) => html`<li key=${i} aria-current=${i === chosen ? "step" : undefined}>
      <button type="button" class="link" onClick=${() => onChoose(i)}><span class="quiet mono">${timeOf(columns, i)}</span> ${sentence(columns, i)}</button></li>`)}</ol></section>`;
}
