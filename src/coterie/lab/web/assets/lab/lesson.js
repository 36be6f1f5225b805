// Lessons: a page of words beside the run or the text that it speaks of, and a goal that the server checks.
import { html } from "../ui.js";
import { editors } from "./editor.js";
import { ask, begin, bound, complain, cursor, fates, first, moves, place, readTask } from "./run.js";
import { effect, signal } from "../vendor/signals.js";

const STORED = "coterie-lessons";

export const lessons = signal([]);
export const current = signal(null); // {lesson, page}
const verdict = signal(null);
const answers = signal({}); // to questions of the page: {text, right}
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
const pageOf = ({ lesson, page }) => lesson.pages[page];

export async function loadLessons() {
  try { lessons.value = await ask("/api/lessons"); } catch (error) { complain(error); }
}

let opened = 0;

/**
 * Open `#/learn/NAME/PAGE`, with what the reader has made of the page behind it: moves, or the text of an editor.
 * Return the page, or null if the address is none of a lesson.
 */
export async function openLesson(text) {
  const mine = ++opened;
  const found = /^#\/learn\/([a-z]+)(?:\/(\d+)(?:\/(.*)|(@.*))?)?$/s.exec(text);
  const lesson = found && lessons.value.find((each) => each.name === found[1]);
  if (!lesson) {
    current.value = null; // the address is of something that no lesson has given
    return null;
  }
  const here = { lesson, page: Math.max(1, Math.min(Number(found[2] ?? 1), lesson.pages.length)) - 1 };
  const page = pageOf(here);
  const made = found[3] ?? found[4];
  let run = null;
  if (made !== undefined && !page.editor) {
    try { run = await readTask(made); } catch (error) { complain(error); }
    if (mine !== opened) return page;
  }
  current.value = here;
  again(run, page.editor && made ? decoded(made) : null);
  return page;
}

const pathOf = ({ lesson, page }) => `learn/${lesson.name}/${page + 1}`;

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return null; /* what cannot be read is left out */ }
}

function again(run = null, text = null) {
  const page = pageOf(current.value);
  verdict.value = null;
  answers.value = {};
  if (page.editor) editors[page.editor].begin(pathOf(current.value), page.text, text);
  else begin(page, pathOf(current.value), { lesson: true, run });
}

function showSolution() {
  const page = pageOf(current.value);
  if (page.editor) editors[page.editor].change(page.solved);
  else begin(page, pathOf(current.value), { lesson: true, run: { moves: [...page.moves, ...page.solution] } });
}

let judging = 0;

function judge(question) {
  const mine = ++judging;
  const here = current.value;
  ask("/api/goal", { lesson: here.lesson.name, page: here.page, ...question }).then((answer) => {
    if (mine !== judging) return;
    verdict.value = answer;
    if (answer.reached) noteDone(keyOf(here));
  }, (error) => { if (mine === judging) verdict.value = { reached: false, text: error.message }; });
}

// The goal of a run is judged when the place has been: then the server knows all that it needs.
effect(() => {
  if (current.value === null || !pageOf(current.value).goal) return;
  const { editor } = pageOf(current.value);
  if (editor) {
    if (editors[editor].answer.value) judge({ text: editors[editor].text.value });
    return;
  }
  if (place.value === null || (fates.value === null && !place.value.notes.length)) return;
  judge({ question: { first: first.value, moves: moves.value, cursor: cursor.value, bound: bound.value } });
});

/** Keep what is being typed: the verdict on another answer draws the card again meanwhile. */
function type(number, text) {
  answers.value = { ...answers.value, [number]: { text, right: null } };
}

async function answerTo(number, text) {
  const here = current.value;
  type(number, text);
  if (!text.trim()) return;
  try {
    const { reached } = await ask("/api/answer", { lesson: here.lesson.name, page: here.page, ask: number, answer: text });
    if (current.value !== here || answers.value[number]?.text !== text) return;
    answers.value = { ...answers.value, [number]: { text, right: reached } };
    const page = pageOf(here);
    if (!page.goal && page.asks.every((_, i) => answers.value[i]?.right)) noteDone(keyOf(here));
  } catch { /* what is refused is not judged */ }
}

export function Words({ text }) {
  return html`<p>${text.split(/(`[^`]+`|\*[^*]+\*)/).map((part, i) => (part.startsWith("`") ? html`<code key=${i}>${part.slice(1, -1)}</code>`
    : part.startsWith("*") ? html`<em key=${i}>${part.slice(1, -1)}</em>` : part))}</p>`;
}

function Ask({ number, text }) {
  const given = answers.value[number];
  return html`<li><label>${text}
    <span class="row"><input type="text" maxlength="60" autocomplete="off" value=${given?.text ?? ""} onInput=${(event) => type(number, event.currentTarget.value)} onChange=${(event) => answerTo(number, event.currentTarget.value)} />
      <span role="status">${given?.right === true && html`<strong class="good">✓ right</strong>`}${given?.right === false && html`<span class="warning">! not so</span>`}</span></span></label></li>`;
}

/** The card of the page that is open, if one is. */
export function Lesson() {
  if (current.value === null) return null;
  const { lesson, page: number } = current.value;
  const page = pageOf(current.value);
  const next = lessons.value[lessons.value.indexOf(lesson) + 1];
  const reached = page.goal ? verdict.value?.reached : done.value.has(keyOf(current.value));
  const [onward, title] = number + 1 < lesson.pages.length ? [`#/learn/${lesson.name}/${number + 2}`, lesson.pages[number + 1].title] : next ? [`#/learn/${next.name}`, next.title] : [];
  return html`<section class="lesson"><p class="quiet small"><a href="#/learn">Lessons</a> › ${lesson.title}, ${number + 1} of ${lesson.pages.length}</p>
    <${Steps} all=${lesson.pages.map((_, i) => done.value.has(keyOf({ lesson, page: i })))} here=${number} /><h2>${page.title}</h2>
    ${page.words.map((text, i) => html`<${Words} key=${i} text=${text} />`)}
    ${page.goal && html`<${Goal} reached=${reached} text=${`${page.task}${page.limit ? ` in at most ${page.limit} moves` : ""}.`}>
      ${verdict.value && !reached && verdict.value.text && html`<span class="warning"> ! ${verdict.value.text}</span>`}<//>`}
    ${page.asks.length > 0 && html`<ol class="asks">${page.asks.map((each, i) => html`<${Ask} key=${keyOf(current.value) + i} number=${i} text=${each.text} />`)}</ol>`}
    <p class="row">${onward && html`<a class="button ${reached ? "main-button" : ""}" href=${onward}>next: ${title}</a>`}
      ${(page.solution.length > 0 || page.solved) && html`<button type="button" class="plain-button" onClick=${showSolution}>show me</button>`}
      <button type="button" class="plain-button" onClick=${() => again()}>begin again</button>
      ${number > 0 && html`<a class="small" href="#/learn/${lesson.name}/${number}">previous</a>`}</p>
  </section>`;
}

/** How far one has come: a piece for each part. */
export function Steps({ all, here }) {
  return html`<ol class="steps" aria-hidden="true">${all.map((isDone, i) => html`<li key=${i} class="${isDone ? "done" : ""} ${i === here ? "here" : ""}"></li>`)}</ol>`;
}

/** What is to be brought about; it says so when it has been. */
export function Goal({ reached, text, children }) {
  return html`<div class="goal ${reached ? "reached" : ""}"><span class="tick-mark" aria-hidden="true">${reached ? "✓" : ""}</span>
    <p><strong>Goal:</strong> ${text}<span role="status">${reached && html`<strong class="good"> ✓ reached</strong>`}${children}</span></p></div>`;
}

// The list of all lessons

export const open = () => { current.value = null; };

const countOf = (lesson) => lesson.pages.filter((_, page) => done.value.has(keyOf({ lesson, page }))).length;

/** The first page that has not been reached, behind the last one that has. */
function nextPage() {
  const pages = lessons.value.flatMap((lesson) => lesson.pages.map((page, i) => ({ lesson, page: i, title: page.title })));
  const last = pages.findLastIndex((each) => done.value.has(keyOf(each)));
  return pages.find((each, i) => i > last && !done.value.has(keyOf(each))) ?? pages.find((each) => !done.value.has(keyOf(each)));
}

export function Main() {
  const pages = lessons.value.reduce((sum, lesson) => sum + lesson.pages.length, 0), reached = lessons.value.reduce((sum, lesson) => sum + countOf(lesson), 0);
  const next = nextPage();
  return html`<main class="catalogue"><div class="page-title"><div><h2 class="wide-title">Lessons</h2><p class="quiet">One idea a page, a run to play with, and a goal that the laboratory checks. What you have reached is remembered by this browser alone.</p>
      ${next && html`<p><a class="button main-button" href="#/learn/${next.lesson.name}/${next.page + 1}">${reached ? "Go on with" : "Begin with"}: ${next.title}</a></p>`}</div>
      <div><p><b class="big">${reached}</b> of ${pages} pages reached</p><progress value=${reached} max=${pages} aria-label="pages reached"></progress></div></div>
    <ol class="tiles lessons">${lessons.value.map((lesson, i) => html`<${Tile} key=${lesson.name} lesson=${lesson} number=${i + 1} />`)}</ol></main>`;
}

function Tile({ lesson, number }) {
  const reached = lesson.pages.map((_, page) => done.value.has(keyOf({ lesson, page })));
  const count = countOf(lesson), isDone = count === lesson.pages.length;
  return html`<li><h3><span class="quiet">${number}</span> <a href="#/learn/${lesson.name}">${lesson.title}</a></h3>
    <div class="lesson-progress"><${Steps} all=${reached} /><span class="small ${isDone ? "good" : "quiet"}">${isDone ? "✓ " : ""}${count} of ${lesson.pages.length} reached</span></div>
    <details class="small"><summary class="quiet">pages</summary><ol>${lesson.pages.map((page, i) => html`<li key=${page.title}><a href="#/learn/${lesson.name}/${i + 1}">${page.title}</a>${reached[i] && html`<span class="good" role="img" aria-label="reached"> ✓</span>`}</li>`)}</ol></details></li>`;
}
