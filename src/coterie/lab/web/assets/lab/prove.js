// Proofs for every number of processes: the clauses of a page, left out and added, and what fails without them.
import { Drawing, html } from "../ui.js";
import { editors } from "./editor.js";
import { Lesson, current } from "./lesson.js";
import { ask, complain, first } from "./run.js";
import { signal } from "../vendor/signals.js";

const editor = editors.prove;
const ANSWERS = {
  "proved": ["✓", "safe"], "not proved": ["✕", "broken"], "not followed": ["✕", "broken"], "vacuous": ["?", "risky"], "unknown": ["?", "risky"],
};
const OUTCOMES = { "kept": ["✓", "good"], "lost": ["✕", "bad"], "not known": ["?", "warning"] };
const pages = signal([]);
const opened = signal(null); // the clause whose text and picture are shown; null: the first that is lost

export const close = () => editor.close();
export const KEYS = [["?", "this sheet"]];

export async function open(hash) {
  opened.value = null;
  await load();
  const played = first.value.split(" ")[0].split(":")[0]; // a file has its class behind it
  if (pages.value.includes(played)) editor.first = played;
  editor.open(hash);
}

async function load() {
  if (pages.value.length) return;
  try { pages.value = await ask("/api/proofs"); } catch (error) { complain(error); }
}

const headOf = (text) => text.split("\n", 1)[0];
const ownOf = (text) => text.slice(headOf(text).length + 1);
const words = (name) => name.replaceAll("_", " ");

/** Write the first line anew: another page, another variant, or other clauses left out. */
function choose({ name, variant = "", only = "", without = [] }) {
  const head = [name, variant && `variant=${variant}`, only, without.length ? `without ${without.join(" ")}` : ""].filter(Boolean).join(" ");
  const own = ownOf(editor.text.value);
  opened.value = null;
  editor.change(own ? `${head}\n${own}` : head);
}

/** Read the first line; what cannot be read the server refuses. */
function read() {
  const [name, ...rest] = headOf(editor.text.value).replaceAll(",", " ").trim().split(/\s+/);
  const variant = rest[0]?.startsWith("variant=") ? rest.shift().slice(8) : "";
  const at = rest.indexOf("without");
  return { name, variant, only: (at < 0 ? rest : rest.slice(0, at)).join(" "), without: at < 0 ? [] : rest.slice(at + 1) };
}

function leaveOut(name, isLeftOut) {
  const head = read();
  choose({ ...head, without: isLeftOut ? [...head.without, name] : head.without.filter((each) => each !== name) });
}

export function Main() {
  const { sheet } = editor.seen.value;
  return html`<main class="proof">
    <div class="left"><${Lesson} /><${Choice} /><${Own} />${sheet && html`<${Spoken} sheet=${sheet} />`}</div>
    <div class="middle"><${Headline} />${sheet && html`<${Clauses} sheet=${sheet} />`}</div></main>`;
}

function Choice() {
  const head = read();
  const flaws = editor.seen.value.sheet?.flaws ?? [];
  if (current.value) return null; // a lesson has chosen
  return html`<section class="card"><h2>What to prove</h2><div class="form">
    <label>page <select value=${head.name} onChange=${(event) => { editor.text.value = ""; choose({ name: event.currentTarget.value }); }}>
      ${pages.value.map((name) => html`<option key=${name} selected=${name === head.name}>${name}</option>`)}</select></label>
    ${flaws.length > 0 && html`<label>variant <select value=${head.variant} onChange=${(event) => choose({ ...head, variant: event.currentTarget.value })}>
      <option value="" selected=${!head.variant}>sound</option>${flaws.map((name) => html`<option key=${name} value=${name} selected=${name === head.variant}>${words(name).replaceAll("-", " ")}</option>`)}</select></label>`}
  </div></section>`;
}

/** Clauses of the reader's own, in the language of the page. */
function Own() {
  const head = headOf(editor.text.value);
  const sort = /\((\w+)/.exec(editor.seen.value.sheet?.symbols.join(" ") ?? "")?.[1] ?? "Process";
  return html`<section class="card"><h2>Add a clause</h2>
    <label class="filter"><span class="hidden-text">clauses of your own</span>
      <textarea rows="7" spellcheck="false" autocapitalize="off" maxlength="4000" placeholder=${`def name(x: ${sort}):\n    return …`}
        value=${ownOf(editor.text.value)} onInput=${(event) => editor.type(event.currentTarget.value ? `${head}\n${event.currentTarget.value}` : head)}></textarea></label>
    <p role="alert" class="bad">${editor.refusal.value}</p>
    <p class="quiet">A function with a sort for each thing. ${["&", "|", "~", ">>", "==", `every(${sort}, lambda y: …)`, "some", "none"].map((each) => html`<code key=${each}>${each}</code> `)}</p></section>`;
}

/** What the page says: its relations, and its steps. */
function Spoken({ sheet }) {
  return html`<details class="card"><summary>What happens: ${sheet.steps.length} steps</summary>
    <h3>Words</h3><ul class="plain mono">${sheet.symbols.map((each) => html`<li key=${each}>${each}</li>`)}</ul>
    <h3>Steps</h3>${sheet.steps.map((step) => html`<pre key=${step.name} class="clause-text" tabindex="0" aria-label="the step ${words(step.name)}">${step.text.replace(/^@.*\n/gm, "").trim()}</pre>`)}</details>`;
}

function Headline() {
  const { proof, missing, ended, sheet, judged, code, reality } = editor.seen.value;
  if (missing) return html`<${Verdict} look="risky" sign="?" word="Nothing is proved">${missing}<//>`;
  if (!proof) {
    if (editor.refusal.value || ended) return html`<${Verdict} look="open" sign="?" word="Not asked" more="The clauses cannot be read yet." />`;
    const all = sheet ? sheet.clauses.length + sheet.theorems.length : 0;
    return html`<${Verdict} look="open" sign="…" word="Proving" more=${all > 0 ? `${Object.keys(judged).length} of ${all} clauses` : ""} />`;
  }
  const [sign, look] = ANSWERS[proof.answer];
  const met = proof.lost ? `${proof.obligations - proof.lost} of ${proof.obligations}` : proof.obligations;
  return html`<${Verdict} look=${look} sign=${sign} word=${sentence(proof.answer)} more=${proof.assumes.length ? `Taken for granted: ${proof.assumes.join("; ")}.` : "Nothing is taken for granted."}
      aside=${html`<span>${proof.clauses} clauses</span><span>${proof.steps} steps</span><span>${met} obligations met</span>`}>${proof.sentence}<//>
    <div class="meaning">${proof.lost > 0 && html`<${Reality} found=${reality} ended=${ended} />`}<${Code} code=${code} ended=${ended} isLost=${proof.lost > 0} /></div>`;
}

function Verdict({ look, sign, word, more, aside, children }) {
  return html`<div class="verdict is-${look}" role="status"><span class="sign" aria-hidden="true">${sign}</span>
    <div><p class="headline"><strong>${word.replace(/\.$/, "")}</strong>${children && `: ${children.replace(/^The /, "the ")}`}</p>${more && html`<p class="more">${more}</p>`}</div>
    ${aside && html`<div class="aside">${aside}</div>`}</div>`;
}

/** Whether what fails can happen: a state that fulfils the clauses need not be one that a run reaches. */
function Reality({ found, ended }) {
  if (!found) return ended ? null : html`<p class="quiet">Looking for a run from the start …</p>`;
  return html`<p class=${found.kind === "real" ? "bad" : ""}>${sentence(found.text)}</p>${found.steps.length > 0 && html`<ol class="run-steps mono">${found.steps.map((each, i) => html`<li key=${i}>${each}</li>`)}</ol>`}`;
}

const FOLLOWING = { "follows": ["✓", "good"], "does not follow": ["✕", "bad"], "not held": ["–", "quiet"] };

/** How far the code was held against the page. */
function Code({ code, ended, isLost }) {
  if (!code) return ended ? null : html`<p class="quiet">Holding the code against it …</p>`;
  const [sign, look] = FOLLOWING[code.kind];
  const text = isLost && code.kind === "follows" ? "no state of the code that was visited breaks a clause" : code.text;
  const said = html`<span class=${look}>${sign} ${sentence(text)}</span>`;
  if (!code.trials.length) return html`<p>${said}</p>`;
  return html`<details><summary>${said} <span class="quiet">${code.trials.length} searches and runs</span></summary><ul class="plain quiet small">${code.trials.map((each) => html`<li key=${each}>${each}</li>`)}</ul></details>`;
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/:$/, "")}${/[.:…]$/.test(text) ? "" : "."}`;

function Clauses({ sheet }) {
  const { judged } = editor.seen.value;
  const all = [...sheet.clauses, ...sheet.theorems];
  const shown = opened.value ?? all.find((each) => judged[each.name]?.outcome === "lost")?.name ?? "";
  const row = (item, kind) => html`<${Row} key=${item.name} item=${item} kind=${kind} isOpen=${shown === item.name} />`;
  return html`<section class="card"><h2>Clauses</h2><ul class="clauses">${sheet.clauses.map((each) => row(each, each.promised ? "promise" : each.added ? "yours" : ""))}</ul>
    ${sheet.theorems.length > 0 && html`<h2>What follows from them</h2><ul class="clauses">${sheet.theorems.map((each) => row(each, "follows"))}</ul>`}
    ${sheet.axioms.length > 0 && html`<h2>Taken for granted</h2><ul class="clauses">${sheet.axioms.map((each) => row(each, "axiom"))}</ul>`}</section>`;
}

function Row({ item, kind, isOpen }) {
  const { judged, losses, ended } = editor.seen.value;
  const isOut = read().without.includes(item.name); // the reader is ahead of the server
  const known = judged[item.name];
  const loss = losses[item.name];
  const [sign, look] = isOut ? ["–", "quiet"] : kind === "axiom" ? ["·", "quiet"] : known ? OUTCOMES[known.outcome] : [ended ? "?" : "…", "quiet"];
  const said = isOut ? "left out" : known && known.outcome !== "kept" ? lostBy(known) : known ? (kind === "follows" ? "follows" : "kept") : "";
  return html`<li class=${isOut ? "left-out" : ""}>
    <div class="clause-row"><button type="button" class="link clause-name" aria-expanded=${isOpen} onClick=${() => { opened.value = isOpen ? " " : item.name; }}>
        <span class="${look} sign" aria-hidden="true">${sign}</span> ${words(item.name)}</button>
      <span class="quiet">${kind === "follows" ? "promise" : kind}</span><span class=${look}>${said}</span>
      ${!item.added && !current.value?.lesson.pages[current.value.page].requirement.startsWith("own") && html`<label class="quiet keep"><input type="checkbox" checked=${!isOut} onChange=${(event) => leaveOut(item.name, !event.currentTarget.checked)} aria-label="use ${words(item.name)}" /><span> use it</span></label>`}</div>
    ${isOpen && html`<div class="clause-detail">${item.why && html`<p>${item.why}</p>`}${item.text && html`<pre class="clause-text" tabindex="0" aria-label="the clause ${words(item.name)}">${item.text.replace(/^@.*\n/gm, "").trim()}</pre>`}
      ${loss && html`<${Loss} loss=${loss} />`}
      ${known && known.outcome !== "kept" && !loss && ended && html`<p class="quiet">There is no picture: with a few things of each sort no state shows it.</p>`}</div>`}</li>`;
}

function lostBy({ outcome, steps }) {
  const named = steps.map((each) => (each === "no step" ? "the clauses alone do not give it" : `by ${words(each)}`)).join(", ");
  return `${outcome === "lost" ? "lost" : "not known"} ${named}`;
}

function Loss({ loss }) {
  const labels = loss.step ? [`the state before ${loss.step}`, "the state after it, in which the clause fails"] : ["a state in which the clause fails"];
  return html`<div class="states">${loss.pictures.map((svg, i) => html`<${Drawing} key=${i} svg=${svg} label=${labels[i]} />`)}</div>
    <p class="quiet">Red: what the step changes. The state before fulfils all clauses, whether a run reaches it or not.</p>
    <details><summary>In words</summary><p>Before: <span class="mono">${loss.before.join("; ") || "nothing"}</span></p>
      ${loss.step && html`<p>Step: <span class="mono">${loss.step}</span></p><p>Change: <span class="mono">${loss.changes.join("; ") || "nothing"}</span></p>`}
      ${loss.witness && html`<p>It fails for <span class="mono">${loss.witness}</span>.</p>`}</details>`;
}
