// Wait-for graphs: write one, and see which waits can never end.
import { Drawing, html } from "../ui.js";
import { EditorBox, editors } from "./editor.js";
import { Lesson } from "./lesson.js";

const write = (graph) => `{\n${Object.entries(graph).map(([name, waits]) => ` ${JSON.stringify(name)}: ${JSON.stringify(waits)}`).join(",\n")}\n}`;
const EXAMPLES = {
  "a cycle": write({ P1: "P2", P2: "P3", P3: "P1" }),
  "a cycle with a way out": write({ P1: { any: ["P2", "P4"] }, P2: "P3", P3: "P1", P4: null }),
  "a knot": write({ P1: { any: ["P2", "P3"] }, P2: { any: ["P1", "P3"] }, P3: { any: ["P1", "P2"] } }),
  "two of three": write({ P1: { of: 2, from: ["P2", "P3", "P4"] }, P2: "P1", P3: "P1", P4: null }),
  "locks": write({ worker: "ledger", ledger: { held: ["batch"] }, batch: "orders", orders: { held: ["worker"] } }),
};
const editor = editors.graph;

export const open = (hash) => editor.open(hash);

export function Main() {
  const answer = editor.answer.value;
  return html`<main class="lab editor">
    <div class="left"><${Lesson} />
      <${EditorBox} editor=${editor} title="Who waits for whom" rows="12" examples=${EXAMPLES} label=${html`the graph, as <code>coterie deadlock</code> reads it`}>
        <p class="quiet">A name waits for that process; <code>{"all": […]}</code> for each, <code>{"any": […]}</code> for one,
          <code>{"of": 2, "from": […]}</code> for two of them; <code>{"held": […]}</code> is a resource and its holders; <code>null</code> runs.</p>
      <//></div>
    <div class="middle">${answer && html`<${Drawing} svg=${answer.svg} label="the wait-for graph; the table says the same in words" />`}</div>
    <div class="right">${answer && html`<${Answer} answer=${answer} />`}</div>
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
