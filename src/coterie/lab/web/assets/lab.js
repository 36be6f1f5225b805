// The laboratory: play a run by hand, see where each move leads.
import { render } from "./vendor/preact.js";
import { signal } from "./vendor/signals.js";
import { Head, html } from "./ui.js";
import { Branches, Compared } from "./lab/branches.js";
import { Picture, zoomBy, zoomWhole } from "./lab/picture.js";
import { Events, Explanation, Moves, TimeBar, Verdict, loadCatalogue, runUntilQuiet, save } from "./lab/panels.js";
import { cursor, findViolation, first, go, hidden, leavePage, makeNow, moves, openAddress, place, playAddress, redo, said, saved, soon, steps, task, undo } from "./lab/run.js";
import { Scenario } from "./lab/scenario.js";
import { Code, States } from "./lab/state.js";

// Lessons and challenges are fetched when one is opened first. A page that was saved as a file does without them.
let lessons = null, challenges = null;

async function loadTeaching() {
  if (lessons !== null || saved) return;
  const [lesson, challenge] = await Promise.all([import("./lab/lesson.js"), import("./lab/challenge.js")]);
  await lesson.loadLessons();
  lessons = lesson;
  challenges = challenge;
}

// Pages that are fetched when they are opened; each has `open` and `Main`, maybe `KEYS`, and `close` to end its work.
const OTHERS = {
  sim: "./lab/simulate.js", check: "./lab/check.js", compare: "./lab/compare.js", trace: "./lab/trace.js",
  first: "./lab/first.js", graph: "./lab/graph.js", history: "./lab/history.js", coterie: "./lab/coterie.js", prove: "./lab/prove.js", learn: "./lab/lesson.js", break: "./lab/challenge.js",
};
const other = signal(null); // {name, page}
const isPlay = () => other.value === null;

/** Which of the other pages an address names; none of them is Play. */
function otherAt(hash) {
  if (saved) return undefined;
  if (/^(#\/?)?$/.test(hash)) return "first";
  return /^#\/(?:(sim|check|compare|trace|graph|history|coterie|prove)(?=[/?@]|$)|(learn|break)$)/.exec(hash)?.slice(1).find(Boolean);
}

let opening = 0; // addresses opened so far: a page that is fetched late does not replace the one that was asked for after it

async function openOther(hash) {
  const mine = ++opening;
  const name = otherAt(hash);
  if (other.value && other.value.name !== name) other.value.page.close?.();
  if (!name) { other.value = null; return false; }
  leavePage();
  const page = await import(OTHERS[name]);
  if (mine !== opening) return true;
  other.value = { name, page };
  page.open(hash);
  return true;
}

const sheet = signal(false);
const copied = signal("");

const KEYS = [
  ["1 … 9", "make that move"], ["space", "deliver the oldest message"], ["g", "run until quiet"],
  ["← →", "one move back, on"], ["Home End", "to the start, to the end"], ["[ ]", "the last, the next entry"], ["!", "the violation"],
  ["+ − 0", "zoom the diagram in, out, not at all"], ["f", "find the shortest violation"], ["F", "the shortest from here"], ["ctrl-z, ctrl-y", "undo, redo"], ["?", "this sheet"],
];

function oldestDelivery() {
  const deliveries = place.value?.enabled.filter((each) => each.kind === "deliver") ?? [];
  for (const message of place.value?.transit ?? []) {
    const move = deliveries.find((each) => each.peer === message.sender && each.process === message.receiver);
    if (move) { makeNow(move.text); return; }
  }
}

function nextEntry(direction) {
  const entries = steps.value.filter((step) => step.states.some((state) => state.phase === "inside" && state.changed.includes("phase")));
  const found = direction > 0 ? entries.find((step) => step.number > cursor.value) : entries.findLast((step) => step.number < cursor.value);
  if (found) go(found.number);
}

function search(from) {
  if (!hidden.value && (!saved || saved.map)) findViolation(from); // a challenge is to be done by hand
}

function press(event) {
  const name = event.target.tagName;
  if (event.key === "Escape" && sheet.value) { sheet.value = false; return; }
  if (name === "INPUT" || name === "SELECT" || name === "TEXTAREA") return;
  if (!isPlay()) {
    if (event.key === "?") sheet.value = !sheet.value;
    return;
  }
  if (event.ctrlKey || event.metaKey) {
    if (event.key === "z" && !event.shiftKey) { event.preventDefault(); undo(); }
    if (event.key === "y" || (event.shiftKey && event.key.toLowerCase() === "z")) { event.preventDefault(); redo(); }
    return;
  }
  if (event.altKey) return;
  if (event.key === " " && (name === "BUTTON" || name === "SUMMARY" || name === "A")) return; // it presses that one
  const actions = {
    ArrowLeft: () => go(cursor.value - 1), ArrowRight: () => go(cursor.value + 1), Home: () => go(0), End: () => go(moves.value.length),
    " ": oldestDelivery, g: runUntilQuiet, f: () => search(0), F: () => search(cursor.value),
    "+": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3), 0: zoomWhole, "]": () => nextEntry(1), "[": () => nextEntry(-1), "?": () => { sheet.value = !sheet.value; },
    "!": () => { const at = steps.value.find((step) => step.violation); if (at) go(at.number); },
  };
  if (/^[1-9]$/.test(event.key)) {
    event.preventDefault();
    soon(() => {
      const move = place.value?.enabled.filter((each) => !each.fault)[Number(event.key) - 1];
      if (move) makeNow(move.text);
    });
  } else if (actions[event.key]) {
    event.preventDefault();
    soon(actions[event.key]);
  }
}

async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    copied.value = "copied";
  } catch {
    copied.value = "copy it from the address bar";
  }
  setTimeout(() => { copied.value = ""; }, 3000);
}

function Keys() {
  return html`<dialog open class="sheet" aria-label="keys"><h2>Keys</h2><table><tbody>
    ${(other.value?.page.KEYS ?? KEYS).map(([key, does]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${does}</td></tr>`)}</tbody></table>
    <button type="button" onClick=${() => { sheet.value = false; }}>close</button></dialog>`;
}

const line = () => encodeURIComponent(first.value).replaceAll("%3D", "=");
const GROUPS = () => [
  ["Run", [["Play", "run", playAddress.value || `#/run/${line()}`], ["Simulate", "sim", `#/sim/${line()}`], ["Check", "check", `#/check/${line()}`], ["Compare", "compare", `#/compare/${first.value.split(" ")[0]}`], ["Prove", "prove", "#/prove"]]],
  ["Learn", [["Lessons", "learn", "#/learn"], ["Challenges", "break", "#/break"]]],
  ["Tools", [["Graphs", "graph", "#/graph"], ["Schedules", "history", "#/history"], ["Coteries", "coterie", "#/coterie"]]],
];
const FORMS = { html: "this run (HTML)", map: "all runs (HTML)", scenario: "scenario", svg: "picture (SVG)", jsonl: "trace (JSONL)" };
const here = () => (lessons?.current.value ? "learn" : other.value?.name ?? (task.value ? "break" : "run"));

function saveAs(event) {
  const form = event.currentTarget.value;
  event.currentTarget.value = "";
  if (form) save(form);
}

function Top() {
  const items = html`${!saved && isPlay() && html`<label>save as <select value="" onChange=${saveAs}><option value="">…</option>
      ${Object.entries(FORMS).map(([form, text]) => html`<option key=${form} value=${form}>${text}</option>`)}</select></label>`}
    <button type="button" onClick=${() => { sheet.value = !sheet.value; }}>keys <kbd>?</kbd></button>`;
  return html`<${Head} title="coterie lab" home=${saved ? undefined : "#/"} groups=${saved ? [] : GROUPS()} current=${here()} items=${items}>
    <span role="status" class="quiet small">${copied.value}</span>${!saved && html`<button type="button" onClick=${share}>Share</button>`}<//>`;
}

function Page() {
  return html`<${Top} />
    ${other.value ? html`<${other.value.page.Main} key=${other.value.name} />` : html`<main class="play ${task.value ? "with-task" : ""}">
      ${lessons && task.value && html`<div class="task"><${lessons.Lesson} /><${challenges.Challenge} /></div>`}
      <div class="run-area"><${Scenario} /><${Verdict} /><${Picture} /><${TimeBar} />${!task.value && html`<${Explanation} />`}
        <div class="two"><${Moves} /><${States} /><${Events} /><${Code} /><${Branches} /></div><${Compared} /></div>
    </main>`}
    <p class="hidden-text" aria-live="polite">${said.value}</p>
    ${sheet.value && html`<${Keys} />`}`;
}

render(html`<${Page} />`, document.getElementById("page"));
document.addEventListener("keydown", press);

let asked = 0;

async function openHere() {
  const hash = location.hash, mine = ++asked;
  if (/^#\/(learn|break)/.test(hash)) await loadTeaching();
  if (mine !== asked) return;
  const lesson = await lessons?.openLesson(hash);
  if (lesson?.editor) { other.value = { name: lesson.editor, page: await import(OTHERS[lesson.editor]) }; return; }
  if (await openOther(hash) || lesson || await challenges?.openChallenge(hash)) return;
  openAddress(hash);
}
addEventListener("hashchange", openHere);
await loadCatalogue();
openHere();
