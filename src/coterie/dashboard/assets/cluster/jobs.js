// Jobs that run once per period: a square for each of the latest runs, with its fate as sign, word and colour.
import { ask } from "../access.js";
import { Chip, age, clock, html } from "../ui.js";
import { signal } from "../vendor/signals.js";
import { moment, paused } from "./state.js";

const LOOK_MILLISECONDS = 10_000;
const FATES = { done: ["✓", "safe"], failed: ["✕", "risky"], interrupted: ["!", "lost"], started: ["▶", "inside"], again: ["↻", "open"] };
const WORDS = { running: ["good", "is running"], done: ["good", "done"], failed: ["bad", "failed"], interrupted: ["bad", "was interrupted"], again: ["warning", "was ordered to run again"] };

const jobs = signal([]);

async function look() {
  if (paused.value || document.hidden) return;
  try {
    const answer = await ask("/api/cluster/jobs");
    if (answer.ok) jobs.value = await answer.json();
  } catch { /* the verdict says that nothing answers */ }
}

export function watchJobs() {
  look();
  setInterval(look, LOOK_MILLISECONDS);
}

export function Jobs() {
  if (jobs.value.length === 0) return null;
  return html`<section aria-labelledby="jobs-title"><div class="section-line"><h2 id="jobs-title">Jobs</h2><span class="quiet small">once per period, the latest run last</span></div>
    <ul class="jobs">${jobs.value.map((job) => html`<${Job} key=${job.name} job=${job} />`)}</ul></section>`;
}

function Job({ job }) {
  const last = job.runs.at(-1), [look, words] = WORDS[job.condition];
  return html`<li class="job"><div><b>${job.name}</b> <${Chip} look=${job.is_overdue ? "bad" : look}>${job.is_overdue ? "overdue" : words}<//></div>
    <ol class="runs">${job.runs.map((run) => html`<${Square} key=${`${run.token} ${run.state}`} run=${run} />`)}</ol>
    <div class="small quiet">${last.period}, by ${last.by}, ${age(moment.value - last.began)} ago${job.next_begin === null ? "" : `; ${nextBegin(job.next_begin)}`}</div></li>`;
}

function Square({ run }) {
  const [sign, look] = FATES[run.state];
  const words = `${run.period}: ${run.state}${run.status ? `, ${run.status}` : ""}`;
  return html`<li class="run is-${look}" title=${`${words}; began ${clock(run.began)} by ${run.by}`}><span aria-hidden="true">${sign}</span><span class="hidden-text">${words}</span></li>`;
}

function nextBegin(at) {
  return at < moment.value ? `the next period began ${age(moment.value - at)} ago` : `the next period begins in ${age(at - moment.value)}`;
}
