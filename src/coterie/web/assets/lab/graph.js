// Wait-for graphs: write one, and see which waits can never end.
import { html } from "../ui.js";
import { ask } from "./run.js";
import { signal } from "../vendor/signals.js";

const EXAMPLES = {
  "a cycle": { P1: "P2", P2: "P3", P3: "P1" },
  "a cycle with a way out": { P1: { any: ["P2", "P4"] }, P2: "P3", P3: "P1", P4: null },
  "a knot": { P1: { any: ["P2", "P3"] }, P2: { any: ["P1", "P3"] }, P3: { any: ["P1", "P2"] } },
  "two of three": { P1: { of: 2, from: ["P2", "P3", "P4"] }, P2: "P1", P3: "P1", P4: null },
  "locks": { worker: "ledger", ledger: { held: ["batch"] }, batch: "orders", orders: { held: ["worker"] } },
};

export const shown = signal(false);
const text = signal("");
const verdict = signal(null);
const refusal = signal("");
const picture = signal("");
let asked = 0;

const write = (graph) => `{\n${Object.entries(graph).map(([name, waits]) => ` ${JSON.stringify(name)}: ${JSON.stringify(waits)}`).join(",\n")}\n}`;

/** Open `#/graph` with an optional graph behind it; return whether the address was one. */
export function openGraph(hash) {
  const found = /^#\/graph(?:\/(.*))?$/.exec(hash);
  shown.value = Boolean(found);
  if (!found) return false;
  let given = "";
  try { given = decodeURIComponent(found[1] ?? ""); } catch { /* what cannot be read is left out */ }
  change(given || text.value || write(EXAMPLES["a cycle with a way out"]));
  return true;
}

async function change(next) {
  const mine = ++asked;
  text.value = next;
  history.replaceState(null, "", `#/graph/${encodeURIComponent(next.replace(/\s+/g, " "))}`);
  try {
    const answer = await ask("/api/graph", { text: next });
    if (mine !== asked) return;
    URL.revokeObjectURL(picture.value);
    picture.value = URL.createObjectURL(new Blob([answer.svg], { type: "image/svg+xml" }));
    verdict.value = answer;
    refusal.value = "";
  } catch (error) {
    if (mine === asked) refusal.value = error.message;
  }
}

export function Graphs() {
  return html`<main class="lab graphs">
    <div class="left"><section class="card"><h2>Who waits for whom</h2>
      <p class="row">${Object.entries(EXAMPLES).map(([name, graph]) => html`<button key=${name} type="button" onClick=${() => change(write(graph))}>${name}</button>`)}</p>
      <label class="filter">the graph, as <code>coterie deadlock</code> reads it
        <textarea rows="14" spellcheck="false" value=${text.value} onInput=${(event) => change(event.currentTarget.value)}></textarea></label>
      ${refusal.value && html`<p class="bad" role="alert">${refusal.value}</p>`}
      <p class="quiet">A name waits for that process; <code>{"all": […]}</code> for each, <code>{"any": […]}</code> for one,
        <code>{"of": 2, "from": […]}</code> for two of them; <code>{"held": […]}</code> is a resource and its holders; <code>null</code> runs.</p>
    </section></div>
    <div class="middle">${picture.value && html`<div class="picture-frame"><img class="picture" src=${picture.value} alt="the wait-for graph; the table says the same in words" /></div>`}</div>
    <div class="right">${verdict.value && html`<${Answer} answer=${verdict.value} />`}</div>
  </main>`;
}

function Answer({ answer }) {
  return html`<section class="card"><h2>${answer.reasons.length ? "Deadlock" : "No deadlock"}</h2>
    ${answer.reasons.map((reason) => html`<div key=${reason.core.join()}><strong class="bad">✕ a ${reason.kind}: ${reason.core.join(", ")}</strong>
      <ul>${reason.sentences.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ul></div>`)}
    <table><caption class="hidden-text">processes</caption><thead><tr><th scope="col">process</th><th scope="col">state</th><th scope="col">waits for</th></tr></thead>
      <tbody>${answer.nodes.map((node) => html`<tr key=${node.name}><td class="mono">${node.name}</td><td class=${node.state === "deadlocked" ? "bad" : ""}>${node.state}</td><td class="mono">${node.waits_for}</td></tr>`)}</tbody></table>
  </section>`;
}
