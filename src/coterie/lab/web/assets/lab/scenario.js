// What is run: a sentence whose values are the controls; for other pages, the same choice as fields.
import { html } from "../ui.js";
import { useEffect, useRef } from "../vendor/hooks.js";
import { BOUNDS, bound, catalogue, choose, chooseBound, effectiveBound, first, place, saved, task } from "./run.js";

/** The first line in parts; the variant is empty if it names none. */
export function parts(line) {
  const [name, size, ...rest] = line.split(/\s+/);
  const variant = rest.find((each) => each.startsWith("variant="));
  return { name, size: Number(size) || 3, variant: variant?.slice(8) ?? "", others: rest.filter((each) => each !== variant) };
}

const entryOf = (line) => catalogue.value.find((each) => each.name === parts(line).name);

/** What a choice of algorithm, size and variant is built of: values, and what follows from another one. */
function controls(line, onChange) {
  const now = parts(line);
  const variants = entryOf(line)?.variants ?? [];
  const change = (key) => (event) => {
    const next = { ...now, [key]: event.currentTarget.value };
    if (key === "name") { next.variant = ""; next.others = []; }
    onChange([next.name, next.size, next.variant && `variant=${next.variant}`, ...next.others].filter(Boolean).join(" "));
  };
  const among = (choices, value, key) => html`<select value=${value} onChange=${change(key)}>
    ${choices.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === value}>${each.name}${each.sound === false && " (flawed)"}</option>`)}</select>`;
  return {
    algorithm: among(catalogue.value, now.name, "name"),
    variant: variants.length > 1 && among(variants, now.variant || variants[0].name, "variant"),
    size: (most) => html`<input type="number" min="1" max=${most} value=${now.size} onChange=${change("size")} />`,
  };
}

/** The algorithm, its size and its variant, as fields. */
export function AlgorithmFields({ first: line, most, onChange }) {
  const { algorithm, variant, size } = controls(line, onChange);
  return html`<label>algorithm ${algorithm}</label><label>processes ${size(most)}</label>${variant && html`<label>variant ${variant}</label>`}`;
}

function Bound({ name }) {
  const most = BOUNDS[name], now = effectiveBound.value[name];
  function change(event) {
    const value = Number(event.currentTarget.value);
    if (event.currentTarget.value !== "" && value !== bound.value[name]) chooseBound(name, Math.max(0, Math.min(most, value)));
  }
  return html`<label><input type="number" min="0" max=${most} value=${now} onInput=${change} /> ${name}</label>`;
}

export function Scenario() {
  const fold = useRef(null);
  useEffect(() => { // on a narrow page the run comes first
    const shown = fold.current;
    if (shown === null) return undefined; // another page has come before this one was painted
    const wide = matchMedia("(min-width: 52.01rem)");
    const set = () => { shown.open = wide.matches && task.value === null; };
    set();
    wide.addEventListener("change", set);
    return () => wide.removeEventListener("change", set);
  }, [task.value]);
  const { algorithm, variant, size } = controls(first.value, choose);
  const entry = entryOf(first.value);
  const [, ...faults] = Object.keys(BOUNDS);
  return html`<details class="scenario-fold" ref=${fold}><summary><b>${first.value}</b> <span>change</span></summary>
    <fieldset class="scenario" disabled=${Boolean(saved) || (task.value !== null && !task.value.lesson)} aria-label="what is run, and what could happen">
      <label>Play <span class="hidden-text">algorithm</span>${algorithm}</label>${variant && html`<label>variant ${variant}</label>`}
      <label>with ${size(9)} processes,</label><${Bound} name="entries" /> <span>each, and at most</span>
      ${faults.map((name) => html`<${Bound} key=${name} name=${name} />`)}</fieldset>
    ${entry && html`<p class="quiet small about">${entry.summary}.</p>`}
    ${place.value?.notes.map((note) => html`<p key=${note} class="quiet small about">${note}</p>`)}</details>`;
}
