// Editors: a text in the address, judged by the server as it is written.
import { html } from "../ui.js";
import { ask, request } from "./run.js";
import { linesOf } from "./stream.js";
import { batch, signal } from "../vendor/signals.js";

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
    this.write(next.replace(/\s+/g, " ").trim());
    try {
      const answer = await ask(`/api/${this.name}`, { text: next });
      if (mine !== this.#asked) return;
      this.answer.value = answer;
      this.refusal.value = "";
    } catch (error) {
      if (mine === this.#asked) this.refusal.value = error.message;
    }
  }

  write(text) {
    const made = this.text.value === this.given ? "" : `/${encodeURIComponent(text)}`;
    history.replaceState(null, "", `#/${this.path}${made}`);
  }
}

const NOTHING = { sheet: null, judged: {}, proof: null, losses: {}, code: null, reality: null, missing: "", ended: false };

/** The clauses of a page of proofs: what is known of them comes line by line, and a new text ends that. */
class ProofEditor extends Editor {
  #stop = new AbortController();
  #later = 0;
  seen = signal(NOTHING); // of this text; `answer` is its verdict, when there is one

  /** Follow what is typed, when the typing rests. */
  type(next) {
    this.text.value = next;
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.change(next), 300);
  }

  close() { this.#stop.abort(); clearTimeout(this.#later); }

  async change(next) {
    this.close();
    const mine = this.#stop = new AbortController();
    batch(() => { this.answer.value = null; this.text.value = next; this.seen.value = { ...NOTHING, sheet: this.seen.value.sheet }; });
    this.write(next.trim());
    try {
      const response = await request("/api/prove", { text: next }, mine.signal);
      for await (const line of linesOf(response)) if (!mine.signal.aborted) this.#take(line);
    } catch (error) {
      if (error.name !== "AbortError") this.refusal.value = error.message;
    }
    if (!mine.signal.aborted) this.seen.value = { ...this.seen.value, ended: true };
  }

  #take(line) {
    const now = this.seen.value;
    const taken = {
      sheet: () => ({ sheet: line }),
      missing: () => ({ missing: line.text }),
      judged: () => ({ judged: { ...now.judged, [line.name]: line } }),
      proof: () => ({ proof: line }),
      loss: () => ({ losses: { ...now.losses, [line.name]: line } }),
      code: () => ({ code: line }),
      reality: () => ({ reality: line }),
    };
    batch(() => {
      this.refusal.value = line.refusal?.error ?? "";
      if (!line.refusal) this.seen.value = { ...now, ...taken[line.type]() };
      if (line.type === "proof") this.answer.value = line;
    });
  }
}

export const editors = {
  graph: new Editor("graph", '{\n "P1": {"any": ["P2", "P4"]},\n "P2": "P3",\n "P3": "P1",\n "P4": null\n}'),
  history: new Editor("history", "r1(x) r2(x) w1(x) w2(x) c1 c2"),
  coterie: new Editor("coterie", "1,2 1,3 2,3"),
  prove: new ProofEditor("prove", "centralized"),
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
