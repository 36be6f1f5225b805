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
  return html`<section class="card lesson"><p class="quiet"><a href="#/learn">Lessons</a> › ${lesson.title}, ${number + 1} of ${lesson.pages.length}</p><h2>${page.title}</h2>
    ${page.words.map((text, i) => html`<${Words} key=${i} text=${text} />`)}
    ${page.goal && html`<p class="goal"><strong>Goal:</strong> ${page.task}${page.limit && ` in at most ${page.limit} moves`}.
      <span role="status">${verdict.value?.reached && html`<strong class="good"> ✓ reached</strong>`}
      ${verdict.value && !verdict.value.reached && verdict.value.text && html`<span class="warning"> ! ${verdict.value.text}</span>`}</span></p>`}
    ${page.asks.length > 0 && html`<ol class="asks">${page.asks.map((each, i) => html`<${Ask} key=${keyOf(current.value) + i} number=${i} text=${each.text} />`)}</ol>`}
    <p class="row"><button type="button" onClick=${() => again()}>begin again</button>${(page.solution.length > 0 || page.solved) && html`<button type="button" onClick=${showSolution}>show me</button>`}
      ${number > 0 && html`<a href="#/learn/${lesson.name}/${number}">previous</a>`}
      ${number + 1 < lesson.pages.length ? html`<a href="#/learn/${lesson.name}/${number + 2}">next</a>` : next && html`<a href="#/learn/${next.name}">next: ${next.title}</a>`}</p>
  </section>`;
}

// The list of all lessons

export const open = () => { current.value = null; };

export function Main() {
  return html`<main class="catalogue"><h2 class="wide-title">Lessons</h2><p class="quiet">One idea a page, a run to play with, and a goal that the laboratory checks. What you have reached is remembered by this browser alone.</p>
    <div class="tiles">${lessons.value.map((lesson) => html`<${Tile} key=${lesson.name} lesson=${lesson} />`)}</div></main>`;
}

function Tile({ lesson }) {
  const reached = lesson.pages.map((_, page) => done.value.has(keyOf({ lesson, page })));
  const count = reached.filter(Boolean).length;
  return html`<section class="card"><h3><a href="#/learn/${lesson.name}">${lesson.title}</a></h3>
    <p class=${count === lesson.pages.length ? "good" : "quiet"}>${count === lesson.pages.length ? "✓ " : ""}${count} of ${lesson.pages.length} reached</p>
    <ol>${lesson.pages.map((page, i) => html`<li key=${page.title}><a href="#/learn/${lesson.name}/${i + 1}">${page.title}</a>${reached[i] && html`<span class="good" aria-label="reached"> ✓</span>`}</li>`)}</ol></section>`;
}
