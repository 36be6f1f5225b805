// One stream for all pages of a browser, which opens six connections to a server at most: the page that has the
// lock listens to the server, and passes on what it hears. A page without locks or channels listens by itself.
const LOCK = "coterie-dashboard-stream";
const REOPEN_MILLISECONDS = 3000;
const KINDS = ["first", "delta", "trouble"];

export class SharedStream {
  #take;
  #begin;
  #source = null;
  #channel = null;
  #end = null; // stops waiting for the lock, or gives it back

  /**
   * `take(kind, data)` takes what the server sends, and the kind "lost" while it does not answer. `begin()` returns
   * what a page that comes later begins with: the data of a "first", or null where nothing is known.
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
    this.#source?.close();
    this.#channel?.close();
    this.#end?.();
    this.#source = this.#channel = this.#end = null;
  }

  #hear({ kind, data }) {
    if (kind !== "hello") {
      if (this.#source === null) this.#take(kind, data);
    } else if (this.#source !== null) {
      const first = this.#begin();
      if (first !== null) this.#channel.postMessage({ kind: "first", data: first });
    }
  }

  #pass(kind, data) {
    this.#channel?.postMessage({ kind, data });
    this.#take(kind, data);
  }

  #listen() {
    const source = this.#source = new EventSource(this.path);
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.#pass(kind, JSON.parse(event.data)));
    source.onerror = () => {
      this.#pass("lost", null);
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself while the server is gone
      setTimeout(() => { if (this.#source === source) this.#listen(); }, REOPEN_MILLISECONDS);
    };
  }
}
