// Challenges: bring something about in as few moves as can be; the server knows how few that is.
import { download, html } from "../ui.js";
import { Words } from "./lesson.js";
import { ask, begin, complain, cursor, hidden, moves, place, readTask, reveal, task } from "./run.js";
import { effect, signal } from "../vendor/signals.js";

const STORED = "coterie-challenges";

const challenges = signal([]);
const score = signal(null);
const hint = signal("");
const hints = signal(0); // taken since the challenge was opened
const best = signal(readBest()); // by name: {moves, shortest, address, hints}

function readBest() {
  try { return JSON.parse(localStorage.getItem(STORED) ?? "{}"); } catch { return {}; }
}

function keepBest(next) {
  best.value = next;
  try { localStorage.setItem(STORED, JSON.stringify(next)); } catch { /* a page without storage forgets */ }
}

const pathOf = (page) => `break/${page.name}`;
const current = () => (task.value ? challenges.value.find((page) => pathOf(page) === task.value.path) ?? null : null);

async function load() {
  if (challenges.value.length === 0) challenges.value = await ask("/api/challenges");
}

/** Open `#/break/NAME/MOVES`; return whether the address was one. */
export async function openChallenge(hash) {
  const found = /^#\/break\/([a-z0-9-]+)(?:\/([^@]*))?(?:@\d+)?$/.exec(hash);
  if (!found) return false;
  try {
    await load();
    const page = challenges.value.find((each) => each.name === found[1]);
    if (!page) { complain({ answer: { error: `there is no challenge ${found[1]}` } }); return true; }
    play(page, found[2] ? (await readTask(found[2])).moves : []);
  } catch (error) { complain(error); }
  return true;
}

function play(page, made = []) {
  score.value = null; hint.value = ""; hints.value = 0;
  begin(page, pathOf(page), { run: { moves: [...page.moves, ...made] } });
}

let judging = 0;
effect(() => {
  const page = current();
  if (page === null || place.value === null || place.value.cursor !== cursor.value) return;
  const mine = ++judging;
  hint.value = "";
  ask("/api/challenge", { name: page.name, moves: moves.value, cursor: cursor.value }).then((answer) => {
    if (mine !== judging) return;
    score.value = answer;
    if (answer.reached) note(page, answer);
  }, (error) => { if (mine === judging) score.value = { reached: false, text: error.message }; });
});

function note(page, answer) {
  const before = best.value[page.name];
  if (before && before.moves <= answer.moves) return;
  keepBest({ ...best.value, [page.name]: { moves: answer.moves, shortest: answer.shortest, hints: hints.value, address: location.hash.replace(/@\d+$/, "") } });
}

async function takeHint(page) {
  hints.value += 1;
  try {
    const way = await ask("/api/hint", { name: page.name, moves: moves.value, cursor: cursor.value });
    hint.value = way.length ? `${way[0]}; the goal is then ${way.length === 1 ? "reached" : `${way.length - 1} more move${way.length === 2 ? "" : "s"} away`}` : "from here the goal cannot be reached: go back";
  } catch (error) { hint.value = error.message; }
}

function peek() {
  hints.value += 1;
  reveal();
}

/** The card of the challenge that is played, if one is. */
export function Challenge() {
  const page = current();
  if (page === null) return null;
  const next = challenges.value[challenges.value.indexOf(page) + 1];
  const reached = score.value?.reached;
  return html`<section class="card lesson"><p class="quiet"><a href="#/break">Challenges</a> › ${challenges.value.indexOf(page) + 1} of ${challenges.value.length}</p><h2>${page.title}</h2>
    ${page.words.map((text, i) => html`<${Words} key=${i} text=${text} />`)}
    <p class="goal"><strong>Goal:</strong> ${page.task}.</p>
    <p role="status" class=${reached ? "good" : "quiet"}>${reached ? html`<strong>✓ reached: ${score.value.text}</strong> <span>(${score.value.ratio.toFixed(2)})</span>` : score.value ? score.value.text : "…"}${hints.value > 0 && `, ${hints.value} hint${hints.value === 1 ? "" : "s"}`}</p>
    ${hint.value && html`<p class="warning">Hint: <span class="mono">${hint.value}</span></p>`}
    <p class="row"><button type="button" onClick=${() => play(page)}>begin again</button>
      <button type="button" onClick=${() => takeHint(page)}>hint</button>
      ${hidden.value && html`<button type="button" onClick=${peek}>show where moves lead</button>`}
      ${next && html`<a href="#/${pathOf(next)}">next: ${next.title}</a>`}</p>
  </section>`;
}

// The list of all challenges

export function open() {
  load().catch(complain);
}

function exportAnswers() {
  const lines = challenges.value.filter((page) => best.value[page.name]).map((page) => best.value[page.name].address);
  download("coterie-answers.txt", new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
}

export function Main() {
  const solved = challenges.value.filter((page) => best.value[page.name]);
  return html`<main class="catalogue"><h2 class="wide-title">Challenges</h2>
    <p class="quiet">Bring it about in as few moves as you can. Where moves lead is hidden; a score of 1.00 is the shortest way there is.
      What you have reached is remembered by this browser alone. An answer is its address: share it, or hand in
      the file, and${" "}<code>coterie lab --grade FILE</code> plays it again.</p>
    <p class="row"><strong>${solved.length} of ${challenges.value.length} reached</strong>
      ${solved.length > 0 && html`<button type="button" onClick=${exportAnswers}>save answers</button><button type="button" onClick=${() => keepBest({})}>forget all</button>`}</p>
    <div class="tiles">${challenges.value.map((page, i) => html`<${Tile} key=${page.name} page=${page} number=${i + 1} />`)}</div></main>`;
}

function Tile({ page, number }) {
  const known = best.value[page.name];
  return html`<section class="card"><h3>${number}. <a href="#/${pathOf(page)}">${page.title}</a></h3>
    <p class="mono quiet">${page.first}</p><p>${page.task}.</p>
    <p class=${known ? "good" : "quiet"}>${known ? html`✓ ${known.moves} moves, ${known.moves === known.shortest ? "as few as can be" : `${known.shortest} would do`} <a href=${known.address}>your answer</a>` : "not reached yet"}</p></section>`;
}
