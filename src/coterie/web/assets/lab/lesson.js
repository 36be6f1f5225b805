// Lessons: a page of words beside the run that it speaks of, and a goal that the server checks.
import { html } from "../ui.js";
import { ask, begin, bound, cursor, fates, first, moves, place, saved } from "./run.js";
import { effect, signal } from "../vendor/signals.js";

const GOALS = {
  stuck: "reach a state from which some process can never enter",
  broken: "break a property",
  served: "let every process enter and leave",
};
const STORED = "coterie-lessons";

export const lessons = signal([]);
const current = signal(null); // {lesson, page}
const verdict = signal(null);
const done = signal(new Set(readDone()));

function readDone() {
  try { return JSON.parse(localStorage.getItem(STORED) ?? "[]"); } catch { return []; }
}

function noteDone(key) {
  if (done.value.has(key)) return;
  done.value = new Set([...done.value, key]);
  try { localStorage.setItem(STORED, JSON.stringify([...done.value])); } catch { /* a page without storage forgets */ }
}

const keyOf = ({ lesson, page }) => `${lesson.name}/${page}`;
export const goalText = (goal) => GOALS[goal] ?? `let process ${goal.split(" ")[1]} be inside`;

export async function loadLessons() {
  if (!saved) lessons.value = await ask("/api/lessons");
}

/** Open `#/learn/NAME/PAGE`; return whether the address was one. */
export function openLesson(text) {
  const found = /^#\/learn\/([a-z]+)(?:\/(\d+))?$/.exec(text);
  const lesson = found && lessons.value.find((each) => each.name === found[1]);
  if (!lesson) {
    current.value = null; // the address is of a run that no lesson has given
    return false;
  }
  turnTo(lesson, Math.min(Number(found[2] ?? 1), lesson.pages.length) - 1);
  return true;
}

function turnTo(lesson, page) {
  current.value = { lesson, page };
  again();
}

function again() {
  const { lesson, page } = current.value;
  const { first: line, moves: given, bound: allowed } = lesson.pages[page];
  verdict.value = null;
  begin(line, given, allowed);
}

function showSolution() {
  const { lesson, page } = current.value;
  const { first: line, moves: given, bound: allowed, solution } = lesson.pages[page];
  begin(line, [...given, ...solution], allowed);
}

// The goal is judged when the place has been: then the server knows all that it needs.
let judging = 0;
effect(() => {
  const here = current.value;
  if (here === null || place.value === null || (fates.value === null && !place.value.notes.length)) return;
  const mine = ++judging;
  const question = { first: first.value, moves: moves.value, cursor: cursor.value, bound: bound.value };
  ask("/api/goal", { lesson: here.lesson.name, page: here.page, question }).then((answer) => {
    if (mine !== judging) return;
    verdict.value = answer;
    if (answer.reached) noteDone(keyOf(here));
  }, () => { if (mine === judging) verdict.value = null; });
});

function Words({ text }) {
  return html`<p>${text.split("`").map((part, i) => (i % 2 ? html`<code key=${i}>${part}</code>` : part))}</p>`;
}

export function Lesson() {
  if (saved || lessons.value.length === 0) return null;
  if (current.value === null) {
    return html`<section class="card"><h2>Lessons</h2><ul class="plain">${lessons.value.map((lesson) => html`<li key=${lesson.name}>
      <a href="#/learn/${lesson.name}">${lesson.title}</a> <span class="quiet">${lesson.pages.filter((_, i) => done.value.has(keyOf({ lesson, page: i }))).length} of ${lesson.pages.length}</span></li>`)}</ul></section>`;
  }
  const { lesson, page: number } = current.value;
  const page = lesson.pages[number];
  const next = lessons.value[lessons.value.indexOf(lesson) + 1];
  return html`<section class="card lesson"><h2>${lesson.title}, ${number + 1} of ${lesson.pages.length}: ${page.title}</h2>
    ${page.words.map((text, i) => html`<${Words} key=${i} text=${text} />`)}
    <p><strong>Goal:</strong> ${goalText(page.goal)}${page.limit && ` in at most ${page.limit} moves`}.
      ${verdict.value?.reached && html`<strong class="good"> ✓ reached</strong>`}
      ${verdict.value && !verdict.value.reached && verdict.value.text && html`<span class="warning"> ! ${verdict.value.text}</span>`}</p>
    <p class="row"><button type="button" onClick=${again}>begin again</button><button type="button" onClick=${showSolution}>show me</button>
      ${number > 0 && html`<a href="#/learn/${lesson.name}/${number}">previous</a>`}
      ${number + 1 < lesson.pages.length ? html`<a href="#/learn/${lesson.name}/${number + 2}">next</a>` : next && html`<a href="#/learn/${next.name}">${next.title}</a>`}
      <button type="button" class="link" onClick=${() => { current.value = null; }}>all lessons</button></p>
  </section>`;
}
