// Other futures of the run, which were left: taken again, or shown beside this one with their differences.
import { html } from "../ui.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { Diagram, Geometry, Names, layoutOf } from "./diagram.js";
import { ask, branches, complain, cursor, first, moves, saved, states, takeBranch } from "./run.js";
import { show } from "./state.js";

const compared = signal(null); // the moves of the branch that is shown beside the run

export function Branches() {
  if (branches.value.length === 0) return null;
  const isCompared = (branch) => compared.value === branch.moves;
  return html`<section class="card"><div class="section-line"><h2>Branches</h2></div><ul class="plain">
    ${branches.value.map((branch, i) => html`<li key=${i} class="row"><button type="button" class="link" onClick=${() => takeBranch(branch)}>${branch.moves.length} moves, to ${branch.moves.at(-1)}</button>
      ${!saved && html`<button type="button" class="plain-button" aria-pressed=${isCompared(branch)} onClick=${() => { compared.value = isCompared(branch) ? null : branch.moves; }}>compare</button>`}</li>`)}
  </ul></section>`;
}

/** How many moves at their beginning two runs have in common. */
function sharedMoves(one, other) {
  let count = 0;
  while (count < one.length && one[count] === other[count]) count += 1;
  return count;
}

/** A branch as a diagram of its own; what happened after the two have parted is marked. */
export function Compared() {
  const [run, setRun] = useState(null);
  const wanted = branches.value.some((branch) => branch.moves === compared.value) ? compared.value : null;
  useEffect(() => {
    setRun(null);
    if (wanted === null) return undefined;
    let isOld = false;
    ask("/api/play", { first: first.value, moves: wanted, cursor: wanted.length }).then((found) => { if (!isOld) setRun(found); }, complain);
    return () => { isOld = true; };
  }, [wanted, first.value]);
  return wanted && run && html`<${Other} run=${run} />`;
}

function Other({ run }) {
  const [wide, setWide] = useState(0);
  const frame = useRef(null);
  useLayoutEffect(() => {
    const sizes = new ResizeObserver(() => setWide(frame.current.clientWidth));
    sizes.observe(frame.current);
    return () => sizes.disconnect();
  }, []);
  const count = run.moves.length, shared = sharedMoves(moves.value.slice(0, cursor.value), run.moves);
  const lanes = Array.from({ length: run.size }, (_, i) => i + 1);
  const geometry = new Geometry({ lanes, from: 0, to: count, cursor: count, free: [], width: wide, row: wide < 640 ? 62 : 76 });
  const parted = new Set(run.steps.map((step) => step.number).filter((number) => number > shared));
  const view = { steps: run.steps, transit: run.transit, free: [], history: [], noReturn: null };
  return html`<section class="card compared" aria-label="the branch beside this run"><div class="section-line"><h2>The branch, ${count} moves</h2><span class="quiet small">the same up to move ${shared}; what differs is marked</span></div>
    <div class="stage">${wide > 0 ? html`<${Names} geometry=${geometry} states=${run.states} width=${wide < 640 ? 78 : 104} />` : html`<span></span>`}
      <div class="picture-frame" ref=${frame} tabindex="0" role="group" aria-label="the branch as a diagram">
        ${wide > 0 && html`<${Diagram} run=${view} geometry=${geometry} layout=${layoutOf(run.steps)} look=${{ found: parted }} />`}</div></div>
    <${Differences} others=${run.states} count=${count} /></section>`;
}

/** The fields that differ between the reader's place and the end of the branch. */
function Differences({ others, count }) {
  const rows = states.value.flatMap((state) => {
    const other = others.find((each) => each.process === state.process);
    const fields = [["phase", state.phase, other.phase], ...Object.keys(state.fields).map((name) => [name, show(state.fields[name]), show(other.fields[name])])];
    return fields.filter(([, here, there]) => here !== there).map(([name, here, there]) => ({ process: state.process, name, here, there }));
  });
  if (rows.length === 0) return html`<p class="quiet">All processes are in the same state in both.</p>`;
  return html`<table><caption class="hidden-text">what differs</caption><thead><tr><th scope="col">process</th><th scope="col">field</th><th scope="col">here, after move ${cursor.value}</th><th scope="col">the branch, after move ${count}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${`${row.process} ${row.name}`}><td>p${row.process}</td><td class="mono">${row.name}</td><td class="mono">${row.here}</td><td class="mono">${row.there}</td></tr>`)}</tbody></table>`;
}
