// Quorums: are they a coterie, is it dominated, how often is a quorum alive?
import { html } from "../ui.js";
import { EditorBox, editors } from "./editor.js";
import { Lesson } from "./lesson.js";
import { signal } from "../vendor/signals.js";

const EXAMPLES = {
  "majority": "majority 5", "plane": "plane 7", "plane of 13": "plane 13", "grid": "grid 9", "tree": "tree 7",
  "votes": "weighted:3,1,1 3", "wheel": "1,2 1,3 1,4 2,3,4", "no coterie": "1,2 2,3 3,4",
};
// The plane of seven points as it is always drawn: corners, middles of the sides, and the centre.
const FANO = [[0, 1, 3], [1, 2, 4], [2, 0, 5], [0, 4, 6], [1, 5, 6], [2, 3, 6], [3, 4, 5]];
const CORNERS = [[210, 40], [40, 340], [380, 340]];
const middle = (a, b) => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
const FANO_POINTS = [...CORNERS, middle(CORNERS[0], CORNERS[1]), middle(CORNERS[1], CORNERS[2]), middle(CORNERS[2], CORNERS[0]), [210, 240]];
const SIZE = 420;
const editor = editors.coterie;
const chosen = signal(0); // the quorum that is shown in the picture

export function open(hash) {
  chosen.value = 0;
  editor.open(hash);
}

export function Main() {
  const answer = editor.answer.value;
  return html`<main class="lab editor">
    <div class="left"><${Lesson} />
      <${EditorBox} editor=${editor} title="Quorums" rows="4" examples=${EXAMPLES} label="quorums, or a name and how many members">
        <p class="quiet">Members by numbers, a comma between them, a space between quorums. Names: ${["majority", "plane", "grid", "tree", "unanimous", "singleton", "weighted:VOTES"].map((name) => html`<code key=${name}>${name}</code> `)}</p>
      <//></div>
    <div class="middle">${answer && html`<${Picture} answer=${answer} /><${Quorums} answer=${answer} />`}</div>
    <div class="right">${answer && html`<${Verdict} answer=${answer} /><${Alive} answer=${answer} />`}</div>
  </main>`;
}

const braces = (members) => `{${members.join(",")}}`;

function Verdict({ answer }) {
  return html`<section class="card"><h2>${answer.coterie ? "A coterie" : "No coterie"}</h2>
    ${answer.coterie ? html`<p class="good">✓ any two quorums have a member in common, and none contains another</p>` : html`<ul class="plain">${answer.faults.map((text) => html`<li key=${text} class="bad">✕ ${text}</li>`)}</ul>`}
    ${answer.nondominated === true && html`<p class="good">✓ nondominated: no other coterie has a quorum alive whenever this one has, and at other times too</p>`}
    ${answer.nondominated === false && html`<p class="warning">! dominated: ${answer.split.length ? html`neither <span class="mono">${braces(answer.split[0])}</span> nor <span class="mono">${braces(answer.split[1])}</span> contains a quorum` : "there is a split of the members without a quorum in either part"}</p>`}
    ${answer.dominating.length > 0 && html`<p>By this one, for example: <span class="mono">${answer.dominating.slice(0, 12).map(braces).join(" ")}${answer.dominating.length > 12 ? " …" : ""}</span>
      <button type="button" class="link" onClick=${() => editor.change(answer.dominating.map((quorum) => quorum.join(",")).join(" "))}>take it</button></p>`}
    <table><caption class="hidden-text">measures</caption><tbody>
      <tr><th scope="row">members</th><td class="number">${answer.members.length}</td></tr>
      <tr><th scope="row">quorums</th><td class="number">${answer.quorums.length}</td></tr>
      <tr><th scope="row">smallest, largest</th><td class="number">${Math.min(...answer.quorums.map((each) => each.length))}, ${Math.max(...answer.quorums.map((each) => each.length))}</td></tr>
      <tr><th scope="row">any so many may fail</th><td class="number">${answer.tolerates}</td></tr>
      ${answer.load.length > 0 && html`<tr><th scope="row">load of the busiest member</th><td class="number">${answer.load[0] === answer.load[1] ? answer.load[0].toFixed(3) : answer.load.map((each) => each.toFixed(3)).join(" to ")}</td></tr>`}
    </tbody></table></section>`;
}

/** How often a quorum is alive, over how often a member is. */
function Alive({ answer }) {
  const wide = 300, high = 200, left = 34, bottom = 28;
  const x = (p) => left + p * (wide - left - 8), y = (p) => 8 + (1 - p) * (high - bottom - 8);
  const shown = answer.availability.filter(([p]) => [0.5, 0.8, 0.9, 0.95, 0.99].includes(Math.round(p * 100) / 100));
  return html`<section class="card"><h2>How often a quorum is alive</h2>
    <svg class="graph chart" viewBox="0 0 ${wide} ${high}" role="img" aria-label="the chance that a quorum is alive, over the chance that a member is; the table has the numbers">
      ${[0, 0.5, 1].map((p) => html`<g key=${p}><line class="grid" x1=${x(0)} x2=${x(1)} y1=${y(p)} y2=${y(p)} /><text x=${left - 6} y=${y(p) + 4} text-anchor="end">${p}</text><text x=${x(p)} y=${high - 10} text-anchor="middle">${p}</text></g>`)}
      <line class="grid dashed" x1=${x(0)} y1=${y(0)} x2=${x(1)} y2=${y(1)} />
      <polyline points=${answer.availability.map(([p, alive]) => `${x(p).toFixed(1)},${y(alive).toFixed(1)}`).join(" ")} />
    </svg>
    <table><caption class="hidden-text">availability</caption><thead><tr><th scope="col">each member, alone</th><th scope="col" class="number">a quorum</th></tr></thead>
      <tbody>${shown.map(([p, alive]) => html`<tr key=${p}><td>${p}</td><td class="number ${alive < p ? "warning" : ""}">${alive.toFixed(4)}</td></tr>`)}</tbody></table>
    <p class="quiet">The dashed line is one member alone.${answer.exact ? "" : " With so many members this is an estimate."}</p></section>`;
}

/** Find the points of the plane of order two for the members, or null if it is another system. */
function fano(answer) {
  if (answer.members.length !== 7 || answer.quorums.length !== 7 || answer.quorums.some((quorum) => quorum.length !== 3)) return null;
  const lines = new Set(answer.quorums.map((quorum) => quorum.join()));
  const place = (taken) => {
    if (taken.length === 7) return taken;
    for (const member of answer.members) {
      if (taken.includes(member)) continue;
      const next = [...taken, member];
      const fits = FANO.every((line) => line.some((point) => point >= next.length) || lines.has(line.map((point) => next[point]).sort((a, b) => a - b).join()));
      const found = fits && place(next);
      if (found) return found;
    }
    return null;
  };
  const found = place([]);
  return found && new Map(found.map((member, i) => [member, FANO_POINTS[i]]));
}

function placesOf(answer) {
  const plane = fano(answer);
  if (plane) return [plane, "plane"];
  const { members } = answer;
  const places = new Map();
  if (answer.kind === "grid") {
    const rows = Math.floor(Math.sqrt(members.length));
    for (let row = 0; row < rows; row += 1) {
      const inside = members.slice(Math.floor(members.length * row / rows), Math.floor(members.length * (row + 1) / rows));
      inside.forEach((member, i) => places.set(member, [SIZE * (i + 1) / (inside.length + 1), SIZE * (row + 1) / (rows + 1)]));
    }
    return [places, "grid"];
  }
  if (answer.kind === "tree") {
    const levels = Math.floor(Math.log2(members.length)) + 1;
    members.forEach((member, i) => {
      const level = Math.floor(Math.log2(i + 1)), before = 2 ** level - 1;
      places.set(member, [SIZE * (i - before + 0.5) / 2 ** level, SIZE * (level + 0.7) / (levels + 0.4)]);
    });
    return [places, "tree"];
  }
  members.forEach((member, i) => {
    const angle = 2 * Math.PI * i / members.length - Math.PI / 2;
    places.set(member, [SIZE / 2 + 165 * Math.cos(angle), SIZE / 2 + 165 * Math.sin(angle)]);
  });
  return [places, "circle"];
}

function Picture({ answer }) {
  const [places, kind] = placesOf(answer);
  const quorum = answer.quorums[chosen.value] ?? answer.quorums[0];
  const at = (member) => places.get(member);
  const centre = [0, 1].map((axis) => quorum.reduce((sum, member) => sum + at(member)[axis], 0) / quorum.length);
  const around = [...quorum].sort((a, b) => Math.atan2(at(a)[1] - centre[1], at(a)[0] - centre[0]) - Math.atan2(at(b)[1] - centre[1], at(b)[0] - centre[0]));
  return html`<div class="picture-frame"><svg class="graph members" viewBox="0 0 ${SIZE} ${kind === "plane" ? 390 : SIZE}" role="img" aria-label="the members, and the chosen quorum among them; the table below has all quorums">
    ${kind === "plane" && html`<g class="lines"><path d="M${CORNERS[0]}L${CORNERS[1]}L${CORNERS[2]}Z" />${[0, 1, 2].map((i) => html`<line key=${i} x1=${CORNERS[i][0]} y1=${CORNERS[i][1]} x2=${FANO_POINTS[[4, 5, 3][i]][0]} y2=${FANO_POINTS[[4, 5, 3][i]][1]} />`)}<circle cx="210" cy="240" r="93" /></g>`}
    ${kind === "tree" && html`<g class="lines">${answer.members.slice(1).map((member, i) => { const parent = at(answer.members[Math.floor(i / 2)]); return html`<line key=${member} x1=${parent[0]} y1=${parent[1]} x2=${at(member)[0]} y2=${at(member)[1]} />`; })}</g>`}
    <polygon class="quorum" points=${around.map((member) => at(member).join()).join(" ")} />
    ${answer.members.map((member) => html`<g key=${member} class="node ${quorum.includes(member) ? "in" : ""}"><circle cx=${at(member)[0]} cy=${at(member)[1]} r=${answer.members.length > 16 ? 15 : 21} /><text x=${at(member)[0]} y=${at(member)[1] + 5}>${member}</text></g>`)}
  </svg></div>`;
}

function Quorums({ answer }) {
  return html`<section class="card"><h2>Quorums</h2><div class="quorum-list" role="group" aria-label="choose a quorum to be shown">
    ${answer.quorums.map((quorum, i) => html`<button key=${quorum.join()} type="button" class="mono" aria-pressed=${i === chosen.value} onClick=${() => { chosen.value = i; }}>${braces(quorum)}</button>`)}
  </div></section>`;
}
