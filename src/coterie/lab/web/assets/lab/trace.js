// Trace: a recorded run that the laboratory was started with, from a file or from a live cluster.
import { html } from "../ui.js";
import { batch, signal } from "../vendor/signals.js";
import { ask } from "./run.js";
import { Around, Legend, Timeline, ViewBar, newView, reveal, sentence, timeOf, whole } from "./timeline.js";
export { KEYS } from "./timeline.js";

const found = signal(null);
const refusal = signal("");
const chosen = signal(null);
const view = newView();

/** Open `#/trace@EVENT`. */
export async function open(hash) {
  const at = /@(\d+)$/.exec(hash)?.[1];
  try {
    const answer = found.value ?? await ask("/api/trace");
    batch(() => {
      if (answer !== found.value) { found.value = answer; view.value = whole(answer.columns); }
      if (at !== undefined && Number(at) < answer.columns.events.time.length) chosen.value = Number(at);
    });
    document.title = `${answer.title} · coterie lab`;
  } catch (error) { refusal.value = error.message; }
}

function choose(event) {
  chosen.value = event;
  reveal(view, found.value.columns, found.value.columns.events.time[event]);
  history.replaceState(null, "", `#/trace@${event}`);
}

async function fork() {
  const { events } = found.value.columns;
  try {
    const forked = await ask("/api/trace/fork", { until: chosen.value === null ? 0 : events.record[chosen.value] + 1 });
    location.hash = forked.address;
  } catch (error) { refusal.value = error.message; }
}

export function Main() {
  const said = found.value;
  return html`<main class="trial whole"><div class="wide-column">
    ${refusal.value && html`<div class="notice bad" role="alert"><p>${refusal.value}</p></div>`}
    ${said && html`<h2>${said.title}</h2>
      ${said.notes.map((note) => html`<p key=${note} class="quiet">${note}</p>`)}
      <${Timeline} columns=${said.columns} view=${view} chosen=${chosen.value} onChoose=${choose} onOpen=${said.playable ? fork : undefined}
        label="the recorded run as a diagram: arrow keys step through its events, plus and minus zoom, 0 shows all" />
      <${ViewBar} columns=${said.columns} view=${view}>${said.playable && html`<button type="button" class="main-button" onClick=${fork}>${chosen.value === null ? "play from the start" : "play from here"}</button>`}<//>
      <p class="chosen" aria-live="polite">${chosen.value === null ? "Click an event, or press an arrow key in the diagram. A message without a name shows it when it is pointed at." : `${timeOf(said.columns, chosen.value)}: ${sentence(said.columns, chosen.value)}`}</p>
      <${Legend} columns=${said.columns} />
      <${Around} columns=${said.columns} chosen=${chosen.value} onChoose=${choose} />`}
  </div></main>`;
}
