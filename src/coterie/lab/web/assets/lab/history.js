// Schedules of transactions: the serialization graph, the verdict, and what each scheme would have done.
import { html } from "../ui.js";
import { EditorBox, editors } from "./editor.js";
import { Lesson } from "./lesson.js";
import { signal } from "../vendor/signals.js";

const EXAMPLES = {
  "serial": "r1(x) w1(x) c1 r2(x) w2(x) c2",
  "lost update": "r1(x) r2(x) w1(x) w2(x) c1 c2",
  "write skew": "r1(y) r2(x) w1(x) w2(y) c1 c2",
  "aborted read": "w1(x) r2(x) w2(y) c2 a1",
  "three in a ring": "r1(x) w2(x) r2(y) w3(y) r3(z) w1(z) c1 c2 c3",
  "late write": "r1(y) w2(x) c2 w1(x) c1",
  "two-phase locks": "l1(x) r1(x) w1(x) l1(y) u1(x) l2(x) r2(x) w2(x) u2(x) w1(y) u1(y) c1 c2",
  "not two-phase": "l1(x) w1(x) u1(x) l2(x) w2(x) l2(y) w2(y) u2(x) u2(y) c2 l1(y) w1(y) u1(y) c1",
  "not well-formed": "l1(x) r1(x) r2(x) w2(x) c2 w1(x) u1(x) c1",
};
const WORDS = { ww: ["wrote", "wrote"], wr: ["wrote", "read"], rw: ["read", "wrote"] }; // the first, then the second
const READS = ["G1a", "G1b"]; // of what was aborted, or replaced by its own writer
// A scheme that does something else with a harmless schedule is strict; with another one it prevents what is wrong.
const HARMLESS = { "as written": ["✓", "good"], reordered: ["~", "warning"], otherwise: ["~", "warning"] };
const HARMFUL = { "as written": ["✕", "bad"], reordered: ["✓", "good"], otherwise: ["✓", "good"] };
const editor = editors.history;
const pointed = signal(null); // a conflict that is pointed at

export const open = (hash) => editor.open(hash);

export function Main() {
  const answer = editor.answer.value;
  return html`<main class="lab editor">
    <div class="left"><${Lesson} />
      <${EditorBox} editor=${editor} title="A schedule" rows="4" examples=${EXAMPLES} label="operations, in the order in which they take effect">
        <p class="quiet"><code>r1(x)</code> and <code>w1(x)</code>: transaction 1 reads and writes the item x; <code>c1</code> commits, <code>a1</code> aborts.
          One that does not end is taken to commit last. Locks, if you like: <code>s1(x)</code> shared, <code>l1(x)</code> exclusive, <code>u1(x)</code> unlock.</p>
      <//>
      ${answer && html`<${Conflicts} answer=${answer} />`}</div>
    <div class="middle">${answer && html`<${Table} answer=${answer} /><${Graph} answer=${answer} />`}</div>
    <div class="right">${answer && html`<${Verdict} answer=${answer} /><${Locking} rules=${answer.locking} /><${Schemes} answer=${answer} />`}</div>
  </main>`;
}

const ownerOf = (operation) => `T${/\d+/.exec(operation)[0]}`;

/** A line for each transaction, time to the right. */
function Table({ answer }) {
  const all = [...answer.operations, ...answer.assumed];
  return html`<div class="picture-frame" tabindex="0" role="group" aria-label="the schedule as a table">
    <table class="schedule"><caption class="hidden-text">the schedule: a row for each transaction</caption><tbody>
    ${answer.transactions.map((name) => html`<tr key=${name}><th scope="row">${name}</th>${all.map((operation, i) => html`<td key=${i} class=${i >= answer.operations.length ? "quiet" : ""}>${ownerOf(operation) === name ? operation : ""}</td>`)}</tr>`)}
  </tbody></table></div>`;
}

/** Which edges lie on a cycle: both ends reach each other. */
function cyclic(answer) {
  const next = new Map(answer.transactions.map((name) => [name, new Set()]));
  for (const each of answer.conflicts) next.get(each.source).add(each.target);
  const reaches = (from, to) => {
    const seen = new Set(), waiting = [from];
    while (waiting.length) {
      for (const name of next.get(waiting.pop())) {
        if (name === to) return true;
        if (!seen.has(name)) { seen.add(name); waiting.push(name); }
      }
    }
    return false;
  };
  return (each) => reaches(each.target, each.source);
}

function Graph({ answer }) {
  const names = answer.transactions;
  const size = 420, high = names.length < 3 ? 220 : size, middle = size / 2, radius = names.length === 1 ? 0 : 140;
  const at = new Map(names.map((name, i) => {
    const angle = 2 * Math.PI * i / names.length - Math.PI / (names.length === 2 ? 1 : 2);
    return [name, [middle + radius * Math.cos(angle), high / 2 + radius * Math.sin(angle)]];
  }));
  const onCycle = cyclic(answer);
  const pairs = new Map(); // edges between the same two, drawn as one with all its labels
  for (const each of answer.conflicts) {
    const key = `${each.source} ${each.target}`;
    if (!pairs.has(key)) pairs.set(key, { ...each, labels: [] });
    pairs.get(key).labels.push(`${each.kind} ${each.key}`);
  }
  return html`<svg class="graph" viewBox="0 0 ${size} ${high}" role="img" aria-label="the serialization graph; the list of conflicts says the same in words">
    ${[...pairs.values()].map((each) => html`<${Edge} key=${each.source + each.target} edge=${each} from=${at.get(each.source)} to=${at.get(each.target)} bad=${onCycle(each)} />`)}
    ${names.map((name) => html`<g key=${name} class="node"><circle cx=${at.get(name)[0]} cy=${at.get(name)[1]} r="26" /><text x=${at.get(name)[0]} y=${at.get(name)[1] + 6}>${name}</text></g>`)}
  </svg>`;
}

function Edge({ edge, from, to, bad }) {
  const dx = to[0] - from[0], dy = to[1] - from[1], length = Math.hypot(dx, dy);
  const side = [-dy / length, dx / length]; // edges bend to their right, so that those of a pair part
  const bend = [(from[0] + to[0]) / 2 - 38 * side[0], (from[1] + to[1]) / 2 - 38 * side[1]];
  const toward = (a, b, r) => { const d = Math.hypot(b[0] - a[0], b[1] - a[1]); return [a[0] + (b[0] - a[0]) * r / d, a[1] + (b[1] - a[1]) * r / d]; };
  const start = toward(from, bend, 28), end = toward(to, bend, 30), angle = Math.atan2(end[1] - bend[1], end[0] - bend[0]);
  const tip = [[0, 0], [-11, -5], [-11, 5]].map(([u, v]) => `${end[0] + u * Math.cos(angle) - v * Math.sin(angle)},${end[1] + u * Math.sin(angle) + v * Math.cos(angle)}`).join(" ");
  const lit = pointed.value && pointed.value.source === edge.source && pointed.value.target === edge.target;
  return html`<g class="edge ${bad ? "bad" : ""} ${lit ? "lit" : ""}"><path d="M${start} Q${bend} ${end}" /><polygon points=${tip} />
    <text x=${bend[0] - 12 * side[0]} y=${bend[1] - 12 * side[1] + 4}>${edge.labels.join(", ")}</text></g>`;
}

function Conflicts({ answer }) {
  return html`<section class="card"><h2>Conflicts</h2>
    ${answer.conflicts.length === 0 && html`<p class="quiet">None: any order has the same outcome.</p>`}
    <ul class="plain">${answer.conflicts.map((each) => html`<li key=${each.text} onPointerEnter=${() => { pointed.value = each; }} onPointerLeave=${() => { pointed.value = null; }}>
      <strong>${each.source} → ${each.target}</strong> <span class="mono">${each.kind} ${each.key}</span> <span class="quiet">${each.text}: ${each.target} ${WORDS[each.kind][1]} after ${each.source} ${WORDS[each.kind][0]}</span></li>`)}</ul></section>`;
}

/** A read of what was aborted or replaced is no cycle: no serial order explains it, by conflicts or otherwise. */
function headingOf(answer) {
  if (answer.serializable === null) return "Not decided";
  if (answer.serializable) return "Serializable";
  return answer.findings.some((each) => READS.includes(each.name)) ? "Not serializable" : "Not conflict-serializable";
}

/** Whether some transaction writes an item that it has not read before. */
function writesBlindly(operations) {
  const read = new Set();
  return operations.some((operation) => {
    if (operation.startsWith("r")) read.add(operation.slice(1));
    return operation.startsWith("w") && !read.has(operation.slice(1));
  });
}

function Verdict({ answer }) {
  const heading = headingOf(answer);
  return html`<section class="card"><h2>${heading}</h2>
    ${heading === "Not conflict-serializable" && writesBlindly(answer.operations) && html`<p class="quiet">Some writes are blind: their transaction has not read the item before.
      With blind writes a schedule may be view-serializable all the same, if a later write hides what they do; conflicts alone do not tell.</p>`}
    ${answer.serializable && html`<p class="good">✓ the same outcome as one after the other: <strong class="mono">${answer.order.join(", ") || "nothing was committed"}</strong></p>`}
    ${answer.findings.map((each) => html`<div key=${each.cycle.join()}><strong class="bad">✕ ${each.meaning} (${each.name}): ${each.cycle.join(" → ")}</strong>
      <ul>${each.sentences.map((text) => html`<li key=${text}>${text}</li>`)}</ul></div>`)}</section>`;
}

/** The rules of locking, for a schedule that has locks. */
function Locking({ rules }) {
  return rules.length > 0 && html`<section class="card"><h2>Locking</h2>
    <ul class="plain">${rules.map((rule) => html`<li key=${rule.name}><strong class=${rule.broken.length ? "bad" : "good"}><span aria-hidden="true">${rule.broken.length ? "✕" : "✓"} </span>${rule.broken.length ? "not " : ""}${rule.name}</strong>
      <span class="quiet">: ${rule.meaning}</span>${rule.broken.length > 0 && html`<ul>${rule.broken.map((text) => html`<li key=${text}>${text}</li>`)}</ul>`}</li>`)}</ul></section>`;
}

function Schemes({ answer }) {
  const outcomes = answer.serializable === false ? HARMFUL : HARMLESS;
  return html`<section class="card"><h2>What each scheme does with it</h2><table><caption class="hidden-text">schemes</caption>
    <thead><tr><th scope="col">scheme</th><th scope="col">asked for these operations in this order, it</th></tr></thead>
    <tbody>${answer.schemes.map((each) => html`<tr key=${each.name}><td><strong>${each.name}</strong></td>
      <td class=${outcomes[each.outcome][1]}><span aria-hidden="true">${outcomes[each.outcome][0]} </span>${each.text}</td></tr>`)}</tbody></table></section>`;
}
