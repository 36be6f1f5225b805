// Editors: a text in the address, judged by the server as it is written.
import { html } from "../ui.js";
import { ask } from "./run.js";
import { signal } from "../vendor/signals.js";

/** An editor of one kind of text; what it says of the text is in `answer`, or why nothing in `refusal`. */
class Editor {
  #asked = 0;

  constructor(name, first) {
    this.name = name;
    this.first = first;
    this.path = name; // before the text in the address; a lesson has one of its own
    this.given = null; // the text of the page of a lesson
    this.text = signal("");
    this.answer = signal(null);
    this.refusal = signal("");
  }

  /** Open `#/NAME` with an optional text behind it. */
  open(hash) {
    let given = "";
    try { given = decodeURIComponent(new RegExp(`^#/${this.name}/(.*)$`, "s").exec(hash)?.[1] ?? ""); } catch { /* what cannot be read is left out */ }
    this.path = this.name;
    this.given = null;
    this.change(given || this.text.value || this.first);
  }

  /** Begin a page of a lesson, with the text that it gives or what the reader has made of it. */
  begin(path, given, made) {
    this.path = path;
    this.given = given;
    this.change(made ?? given);
  }

  async change(next) {
    const mine = ++this.#asked;
    this.text.value = next;
    const text = next === this.given ? "" : `/${encodeURIComponent(next.replace(/\s+/g, " ").trim())}`;
    history.replaceState(null, "", `#/${this.path}${text}`);
    try {
      const answer = await ask(`/api/${this.name}`, { text: next });
      if (mine !== this.#asked) return;
      this.answer.value = answer;
      this.refusal.value = "";
    } catch (error) {
      if (mine === this.#asked) this.refusal.value = error.message;
    }
  }
}

export const editors = {
  graph: new Editor("graph", '{\n "P1": {"any": ["P2", "P4"]},\n "P2": "P3",\n "P3": "P1",\n "P4": null\n}'),
  history: new Editor("history", "r1(x) r2(x) w1(x) w2(x) c1 c2"),
  coterie: new Editor("coterie", "1,2 1,3 2,3"),
};

/** The text, examples to choose from, and what is wrong with it. */
export function EditorBox({ editor, title, label, rows, examples, children }) {
  return html`<section class="card"><h2>${title}</h2>
    <p class="row examples">${Object.entries(examples).map(([name, text]) => html`<button key=${name} type="button" onClick=${() => editor.change(text)}>${name}</button>`)}</p>
    <label class="filter">${label}
      <textarea rows=${rows} spellcheck="false" maxlength="2000" value=${editor.text.value} onInput=${(event) => editor.change(event.currentTarget.value)}></textarea></label>
    ${editor.refusal.value && html`<p class="bad" role="alert">${editor.refusal.value}</p>`}
    ${children}</section>`;
}
