// Challenges: bring something about in as few moves as can be; the server knows how few that is.
import { capital, download, html } from "../ui.js";
import { Goal, Steps, Words } from "./lesson.js";
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
  const kept = best.value[page.name];
  return html`<section class="lesson"><p class="quiet small"><a href="#/break">Challenges</a> › ${challenges.value.indexOf(page) + 1} of ${challenges.value.length} <${Level} page=${page} /></p><h2>${page.title}</h2>
    ${page.words.map((text, i) => html`<${Words} key=${i} text=${text} />`)}
    <${Goal} reached=${reached} text=${`${page.task}.`}>
      ${reached ? html`: ${score.value.text} (${score.value.ratio.toFixed(2)})` : html`<span class="quiet"> ${score.value?.text ?? "…"}</span>`}${hints.value > 0 && `, ${hintsText(hints.value)}`}<//>
    ${kept && html`<p><${Medal} known=${kept} /></p>`}
    ${hint.value && html`<p class="warning">Hint: <span class="mono">${hint.value}</span></p>`}
    <p class="row">${next && html`<a class="button ${reached ? "main-button" : ""}" href="#/${pathOf(next)}">next: ${next.title}</a>`}
      <button type="button" onClick=${() => takeHint(page)}>hint</button>
      ${hidden.value && html`<button type="button" class="plain-button" onClick=${peek}>show where moves lead</button>`}
      <button type="button" class="plain-button" onClick=${() => play(page)}>begin again</button></p>
  </section>`;
}

const LEVELS = ["", "easy", "harder", "hard"];

function Level({ page }) {
  return html`<span class="level" role="img" aria-label=${LEVELS[page.level]}>${[1, 2, 3].map((dot) => html`<i key=${dot} class=${dot <= page.level ? "on" : ""}></i>`)}</span>`;
}

const hintsText = (count) => `${count} hint${count === 1 ? "" : "s"}`;

/** Gold is the fewest moves without a hint, silver at most a quarter more. */
function medalOf(known) {
  if (known.moves === known.shortest && !known.hints) return "gold";
  return known.moves <= 1.25 * known.shortest && !known.hints ? "silver" : "bronze";
}

function Medal({ known }) {
  const medal = known ? medalOf(known) : "none";
  return html`<span class="medal ${medal}"><svg viewBox="0 0 16 20" aria-hidden="true"><path d="M4 11L3 19L8 16L13 19L12 11Z" /><circle cx="8" cy="7" r="6" /></svg>
    ${known ? html`<span>${medal}: ${known.moves} moves, ${known.moves === known.shortest ? "as few as can be" : `${known.shortest} would do`}${known.hints > 0 && `, ${hintsText(known.hints)}`}</span>` : html`<span class="quiet">not reached yet</span>`}</span>`;
}

// The list of all challenges

export function open() {
  load().catch(complain);
}

function exportAnswers() {
  const lines = challenges.value.filter((page) => best.value[page.name]).map((page) => {
    const { address, hints: taken } = best.value[page.name];
    return taken ? `${address} # ${hintsText(taken)}` : address;
  });
  download("coterie-answers.txt", new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
}

const FILTERS = { all: "All", open: "Not yet reached", faultless: "Without a fault" };
const FAULTS = ["crashes", "losses", "duplicates", "suspicions"];
const filter = signal("all");

const allowed = (page) => FAULTS.filter((name) => page.bound?.[name]).map((name) => `at most ${page.bound[name]} ${name}`).join(", ") || "no fault";

function isShown(page, which) {
  return which === "all" || (which === "open" ? !best.value[page.name] : allowed(page) === "no fault");
}

export function Main() {
  const all = challenges.value, solved = all.filter((page) => best.value[page.name]);
  const next = all.find((page) => !best.value[page.name]);
  return html`<main class="catalogue"><div class="page-title"><div><h2 class="wide-title">Challenges</h2>
      <p class="quiet">Bring it about in as few moves as you can. Where moves lead is hidden; a score of 1.00 is the shortest way there is.
        What you have reached is remembered by this browser alone. An answer is its address: share it, or hand in
        the file, and${" "}<code>coterie lab --grade FILE</code> plays it again.</p></div>
      <div><p><b class="big">${solved.length}</b> of ${all.length} reached</p><${Steps} all=${all.map((page) => Boolean(best.value[page.name]))} /></div></div>
    <div class="row filters" role="group" aria-label="which challenges">${Object.entries(FILTERS).map(([name, text]) => html`<button key=${name} type="button" aria-pressed=${filter.value === name}
        onClick=${() => { filter.value = name; }}>${text} ${all.filter((page) => isShown(page, name)).length}</button>`)}
      <span class="spring"></span>${solved.length > 0 && html`<button type="button" onClick=${exportAnswers}>save answers</button><button type="button" class="plain-button" onClick=${() => keepBest({})}>forget all</button>`}</div>
    <ol class="tiles">${all.filter((page) => isShown(page, filter.value)).map((page) => html`<${Tile} key=${page.name} page=${page} isNext=${page === next} />`)}</ol></main>`;
}

function Tile({ page, isNext }) {
  const known = best.value[page.name];
  return html`<li class="tile ${isNext ? "next-tile" : ""}"><h3><a href="#/${pathOf(page)}">${page.title}</a> <${Level} page=${page} /></h3>
    <p>${capital(page.task)}.</p><p class="mono quiet small">${page.first} · ${allowed(page)}</p>
    <p><${Medal} known=${known} />${known && html` <a class="small" href=${known.address}>your answer</a>`}${isNext && html` <strong class="small">next</strong>`}</p></li>`;
}
