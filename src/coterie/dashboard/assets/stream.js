// One stream for all pages of a browser, which opens six connections to a server at most: the page that has the
// lock listens to the server, and passes on what it hears. A page without locks or channels listens by itself.
import { ask } from "./access.js";

const LOCK = "coterie-dashboard-stream";
const REOPEN_MILLISECONDS = 3000;

export class SharedStream {
  #take;
  #begin;
  #listening = null; // ends the stream, where this page has it
  #channel = null;
  #end = null; // stops waiting for the lock, or gives it back

  /**
   * `take(kind, data)` takes what the server sends, and the kinds "lost" while it does not answer and "refused" while
   * it wants another token. `begin()` returns what a page that comes later begins with: the data of a "first", or null where nothing is known.
   */
  constructor(path, take, begin) {
    this.path = path;
    this.#take = take;
    this.#begin = begin;
  }

  get isOpen() { return this.#end !== null; }

  open() {
    if (this.isOpen) return;
    if (!navigator.locks || !globalThis.BroadcastChannel) {
      this.#end = () => {};
      this.#listen();
      return;
    }
    this.#channel = new BroadcastChannel(LOCK);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    this.#channel.postMessage({ kind: "hello" });
    const waits = new AbortController();
    this.#end = () => waits.abort();
    navigator.locks.request(LOCK, { signal: waits.signal }, () => new Promise((release) => {
      if (waits.signal.aborted) { release(); return; }
      this.#end = release;
      this.#listen();
    })).catch(() => { /* it was closed while it waited */ });
  }

  close() {
    this.#listening?.abort();
    this.#channel?.close();
    this.#end?.();
    this.#listening = this.#channel = this.#end = null;
  }

  #hear({ kind, data }) {
    if (kind !== "hello") {
      if (this.#listening === null) this.#take(kind, data);
    } else if (this.#listening !== null) {
      const first = this.#begin();
      if (first !== null) this.#channel.postMessage({ kind: "first", data: first });
    }
  }

  #pass(kind, data) {
    this.#channel?.postMessage({ kind, data });
    this.#take(kind, data);
  }

  async #listen() {
    const listening = this.#listening = new AbortController();
    while (!listening.signal.aborted) {
      let fate = "lost";
      try {
        const answer = await ask(this.path, { signal: listening.signal });
        if (answer.status === 401) fate = "refused";
        else if (answer.ok) await readEvents(answer.body, (kind, data) => this.#pass(kind, JSON.parse(data)));
      } catch { /* the server has ended, or the page has closed the stream */ }
      if (listening.signal.aborted) return;
      this.#pass(fate, null);
      await new Promise((resume) => { setTimeout(resume, REOPEN_MILLISECONDS); });
    }
  }
}

/** Read server-sent events: an EventSource would send no token. */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(event);
      take(kind, data);
    }
  }
}
