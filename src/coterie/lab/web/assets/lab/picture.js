// The diagram of the run that is played: as wide as the page, zoomed and moved by mouse, keys and touch.
import { html } from "../ui.js";
import { useEffect, useLayoutEffect, useRef } from "../vendor/hooks.js";
import { computed, signal } from "../vendor/signals.js";
import { Diagram, Geometry, Names, layoutOf, travel } from "./diagram.js";
import { cursor, fates, first, go, isConcurrent, looked, make, moves, place, steps } from "./run.js";

const SHOWN_MAX = 120; // steps drawn at once; the others are a click away
const ZOOM_LEAST = 0.4, ZOOM_MOST = 4;
const NARROW = 640;

const layout = computed(() => layoutOf(steps.value));
const wide = signal(0); // pixels that the diagram has
const zoom = signal(1);
const hiddenLanes = signal({ of: "", lanes: new Set() }); // of a first line: another algorithm has other processes
export const pointed = signal(""); // a move whose row is pointed at
export const found = signal(new Set()); // steps that a search for events has found

function hiddenHere() { return hiddenLanes.value.of === first.value ? hiddenLanes.value.lanes : new Set(); }

function hide(process) {
  hiddenLanes.value = { of: first.value, lanes: new Set([...hiddenHere(), process]) };
}

export function zoomBy(factor) { zoom.value = Math.max(ZOOM_LEAST, Math.min(ZOOM_MOST, zoom.value * factor)); }
export function zoomWhole() { zoom.value = 1; }

/** Let the message that has just arrived travel along its line: where it came from is seen, and nothing waits for it. */
function useTravel(frame) {
  const before = useRef(cursor.value);
  useEffect(() => {
    const isMove = cursor.value === before.current + 1;
    before.current = cursor.value;
    if (!isMove) return undefined;
    const arrived = steps.value[cursor.value]?.records.find((record) => record.kind === "delivered");
    return arrived && travel(frame.current, arrived.number);
  }, [cursor.value, steps.value]);
}

/** Two fingers zoom; one moves the diagram, as it does any page. */
function usePinch(frame) {
  useEffect(() => {
    const fingers = new Map();
    const apart = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY); };
    let last = 0;
    const down = (event) => { if (event.pointerType === "touch") fingers.set(event.pointerId, event); if (fingers.size === 2) last = apart(); };
    const move = (event) => {
      if (!fingers.has(event.pointerId)) return;
      fingers.set(event.pointerId, event);
      if (fingers.size === 2 && last > 0) { const now = apart(); zoomBy(now / last); last = now; }
    };
    const up = (event) => fingers.delete(event.pointerId);
    const wheel = (event) => { if (event.ctrlKey) { event.preventDefault(); zoomBy(event.deltaY > 0 ? 0.85 : 1.18); } };
    const listeners = { pointerdown: down, pointermove: move, pointerup: up, pointercancel: up, wheel };
    const box = frame.current;
    for (const [name, listener] of Object.entries(listeners)) box.addEventListener(name, listener, { passive: false });
    return () => { for (const [name, listener] of Object.entries(listeners)) box.removeEventListener(name, listener); };
  }, []);
}

export function Picture() {
  const frame = useRef(null);
  useLayoutEffect(() => {
    const measure = () => { if (frame.current.clientWidth) wide.value = frame.current.clientWidth; };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(frame.current);
    return () => sizes.disconnect();
  }, []);
  usePinch(frame);
  useTravel(frame);
  useEffect(() => { // keep the reader's place in sight
    const box = frame.current, at = box?.querySelector(".cursor")?.x1.baseVal.value;
    if (at === undefined) return;
    if (at + 200 > box.scrollLeft + box.clientWidth || at - 60 < box.scrollLeft) box.scrollLeft = at - box.clientWidth / 2;
  }, [cursor.value, steps.value, wide.value, zoom.value]);
  return html`<div class="stage"><${Pinned} />
    <div class="picture-frame" ref=${frame} tabindex="0" role="group" aria-label="the run as a diagram; plus and minus zoom; the list of events below says the same in words">
      ${place.value && wide.value > 0 && html`<${Run} />`}</div></div>`;
}

const geometry = computed(() => {
  if (place.value === null || wide.value === 0) return null;
  const from = Math.max(0, cursor.value - SHOWN_MAX), to = Math.min(moves.value.length, from + SHOWN_MAX + 40);
  const lanes = Array.from({ length: place.value.size }, (_, i) => i + 1).filter((process) => !hiddenHere().has(process));
  const isNarrow = wide.value < NARROW, row = isNarrow ? 72 : place.value.size > 5 ? 64 : 84;
  return new Geometry({ lanes, from, to, cursor: cursor.value, free: freeMoves.value, width: wide.value, zoom: zoom.value, row, min: isNarrow ? 64 : 58 });
});

/** Moves that are no faults: those that have a number, and a circle in the diagram. */
export const freeMoves = computed(() => (place.value?.enabled ?? []).filter((move) => !move.fault));

function Pinned() {
  const here = geometry.value;
  if (here === null) return html`<span></span>`;
  return html`<${Names} geometry=${here} states=${place.value.states} width=${wide.value < NARROW ? 78 : 104} onHide=${here.lanes.length > 1 ? hide : undefined} />`;
}

function Run() {
  const known = fates.value;
  const run = {
    steps: steps.value, transit: place.value.transit, free: freeMoves.value, fates: known?.moves,
    history: known?.history ?? [], noReturn: known?.no_return ?? null,
  };
  const look = { step: looked.value, move: pointed.value, found: found.value, isConcurrent };
  return html`<${Diagram} run=${run} geometry=${geometry.value} layout=${layout.value} look=${look} onMove=${make} onStep=${go} onLook=${(step) => { looked.value = step; }} />`;
}

/** What brings the diagram back to the whole, where something of it is out of sight. */
export function ViewButtons() {
  const lanes = hiddenHere();
  return html`<span class="row">
    <button type="button" class="icon-button" aria-label="zoom out" onClick=${() => zoomBy(1 / 1.3)}>−</button><button type="button" class="icon-button" aria-label="zoom in" onClick=${() => zoomBy(1.3)}>+</button>
    ${zoom.value !== 1 && html`<button type="button" onClick=${zoomWhole}>whole run</button>`}
    ${lanes.size > 0 && html`<button type="button" onClick=${() => { hiddenLanes.value = { of: "", lanes: new Set() }; }}>show ${[...lanes].sort().map((process) => `p${process}`).join(", ")}</button>`}</span>`;
}
