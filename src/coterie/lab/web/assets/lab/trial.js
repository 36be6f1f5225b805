// What the pages of simulations share: the choice of a run, its address, and how it is asked for.
import { html } from "../ui.js";
import { parts } from "./scenario.js";
import { ask, catalogue } from "./run.js";

export const USUAL = { workload: "closed", entries: 3, rate: 0.2, hold: "1", latency: "uniform:0.5,1.5", loss: 0, duplication: 0, seed: 0, faults: [] };
export const WORKLOADS = {
  closed: "each asks again as soon as it has left", burst: "all ask at the same moment", "one-at-a-time": "the next asks when all is quiet", "one-at-random": "any other asks when all is quiet",
  poisson: "requests at random moments", "hot-spot": "at random moments, mostly by process 1",
};
const LATENCIES = ["1", "uniform:0.5,1.5", "exponential:1", "lognormal:1,0.5", "matrix:1,9;9,1"];
const NUMBERS = ["entries", "rate", "loss", "duplication", "seed"];

/** Read `FIRST?workload=…&fault=…`: an address holds whatever differs from the usual choice. */
export function readChoice(text) {
  const [line, query = ""] = text.split("?", 2);
  const given = new URLSearchParams(query);
  const choice = { ...USUAL, first: decode(line), faults: given.getAll("fault") };
  for (const name of Object.keys(USUAL)) {
    if (name === "faults" || !given.has(name)) continue;
    const value = given.get(name);
    choice[name] = NUMBERS.includes(name) ? Number(value) || 0 : value;
  }
  return choice;
}

/** What an address says; if that cannot be read, the address itself, which will be refused. */
export function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

const plain = (text) => encodeURIComponent(text).replace(/%(3D|2C|3A|40)/gi, decodeURIComponent).replaceAll("%20", "+");

export function queryOf(choice) {
  const said = Object.keys(USUAL).filter((name) => name !== "faults" && choice[name] !== USUAL[name]).map((name) => `${name}=${plain(String(choice[name]))}`);
  return [...said, ...choice.faults.map((fault) => `fault=${plain(fault)}`)].join("&");
}

export const writeChoice = (choice) => `${encodeURIComponent(choice.first).replace(/%(3D|2C|3A)/gi, decodeURIComponent)}${queryOf(choice) && `?${queryOf(choice)}`}`;

export const isElection = (line) => catalogue.value.find((each) => each.name === parts(line).name)?.family === "election";

export const simulate = (choice) => ask("/api/simulate", choice);

/** The users, the network, the faults and the seed. */
export function RunFields({ choice, onChange, election }) {
  const field = (name, type, more = {}) => html`<label>${name.replace("duplication", "repeated").replace("loss", "lost")} <input type=${type} ...${more} value=${choice[name]}
    onChange=${(event) => onChange({ [name]: type === "number" ? Number(event.currentTarget.value) : event.currentTarget.value })} /></label>`;
  const arrives = choice.workload === "poisson" || choice.workload === "hot-spot";
  return html`
    ${!election && html`<label>requests <select value=${choice.workload} onChange=${(event) => onChange({ workload: event.currentTarget.value })}>
        ${Object.keys(WORKLOADS).map((name) => html`<option key=${name} value=${name} selected=${name === choice.workload}>${name}</option>`)}</select></label>
      <p class="quiet note">${WORKLOADS[choice.workload] ?? ""}</p>
      ${field("entries", "number", { min: 1, max: 1000 })}
      ${arrives && field("rate", "number", { min: 0.01, step: 0.05 })}
      ${field("hold", "text", { list: "latencies" })}`}
    ${field("latency", "text", { list: "latencies" })}
    <datalist id="latencies">${LATENCIES.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
    ${field("loss", "number", { min: 0, max: 1, step: 0.01 })}
    ${field("duplication", "number", { min: 0, max: 1, step: 0.01 })}
    <label class="filter faults">faults, one a line
      <textarea rows="3" spellcheck="false" placeholder="crash 3 @ 10" value=${choice.faults.join("\n")}
        onChange=${(event) => onChange({ faults: event.currentTarget.value.split("\n").map((each) => each.trim()).filter(Boolean) })}></textarea></label>
    <div class="row seed">${field("seed", "number")}<button type="button" onClick=${() => onChange({ seed: choice.seed + 1 })}>next seed</button></div>`;
}

export const number = (value) => (value === null || value === undefined ? "–" : Number(value.toFixed(2)).toLocaleString("en"));

/** What theory allows for a cost. */
export const range = ({ low, high }) => (high === null ? `≥ ${number(low)}` : low === high ? number(low) : `${number(low)} to ${number(high)}`);
