// The first screen: a sentence, a run that plays itself once, and three doors.
import { html } from "../ui.js";
import { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { Diagram, Geometry, Names, isStill, layoutOf, travel } from "./diagram.js";
import { lessons, loadLessons } from "./lesson.js";
import { ask, complain, problem } from "./run.js";

const FIRST = "maekawa 3 variant=basic";
const MOVES = ["acquire 1", "acquire 2", "acquire 3", "deliver 1 > 2", "deliver 2 > 3", "deliver 3 > 1"];
const TOLD = [
  "Three processes share one thing. To use it, each needs the votes of two.",
  "p1 asks. It has its own vote, and asks p2 for the other.", "p2 asks, too. It needs the vote of p3.",
  "So does p3, which needs the vote of p1. It is already too late: no order of delivery helps.",
  "The request of p1 arrives. p2 has given its vote to itself.", "The request of p2 arrives at p3: the same.",
  "The request of p3 arrives at p1. Each holds one vote and waits for another, forever.",
];
const MILLISECONDS = 560; // for each picture of the film
const BREAK = "#/run/maekawa%203%20variant=basic/a1/a2@2";
const OWN = `from coterie.process import Entered, Mutex, Outbox, Payload

class Request(Payload, frozen=True): ...
class Reply(Payload, frozen=True): ...

class Naive(Mutex[Request | Reply]):
    """Enter when all have agreed; agree to whatever is asked."""
    size: int
    awaiting: set[int] = set()

    def acquire(self, out: Outbox[Request | Reply]) -> None:
        self.awaiting = {peer for peer in range(1, self.size + 1) if peer != self.me}
        out.broadcast(self.awaiting, Request())

    def release(self, out: Outbox[Request | Reply]) -> None: ...

    def receive(self, sender: int, message: Request | Reply, out: Outbox[Request | Reply]) -> None:
        if isinstance(message, Request):
            out.send(sender, Reply())
        else:
            self.awaiting.remove(sender)
            if not self.awaiting:
                out.tell(Entered())
`;

const film = signal(null); // {steps, history}

export async function open() {
  document.title = "coterie lab";
  if (lessons.value.length === 0) loadLessons();
  if (film.value) return;
  try {
    const question = { first: FIRST, moves: MOVES, cursor: MOVES.length };
    const [played, judged] = await Promise.all([ask("/api/play", question), ask("/api/fates", question)]);
    film.value = { steps: played.steps, history: judged.history };
  } catch (error) { complain(error); }
}

/** The state of each process after so many steps. */
function statesAt(steps, at) {
  const states = new Map();
  for (const step of steps.slice(0, at + 1)) for (const state of step.states) states.set(state.process, state);
  return [...states.values()];
}

function Film({ steps, history }) {
  const last = steps.length - 1;
  const [at, setAt] = useState(isStill() ? last : 0);
  const [wide, setWide] = useState(0);
  const frame = useRef(null);
  useLayoutEffect(() => {
    const sizes = new ResizeObserver(() => setWide(frame.current.clientWidth));
    sizes.observe(frame.current);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (at >= last) return undefined;
    const timer = setTimeout(() => setAt(at + 1), MILLISECONDS);
    return () => clearTimeout(timer);
  }, [at]);
  useEffect(() => {
    const arrived = steps[at].records.find((record) => record.kind === "delivered");
    return arrived && travel(frame.current, arrived.number, 0.7 * MILLISECONDS);
  }, [at]);
  const isNarrow = wide < 640;
  const geometry = new Geometry({ lanes: [1, 2, 3], from: 0, to: last, cursor: at, free: [], width: wide, row: isNarrow ? 62 : 76, min: 34, max: 400 });
  const seen = steps.slice(0, at + 1);
  const run = { steps: seen, transit: [], free: [], history: history.slice(0, at + 1), noReturn: null };
  return html`<figure class="film"><div class="stage">
      ${wide > 0 ? html`<${Names} geometry=${geometry} states=${statesAt(steps, at)} width=${isNarrow ? 78 : 104} />` : html`<span></span>`}
      <div class="picture-frame" ref=${frame} tabindex="0" role="group" aria-label="a run that ends in a deadlock; the sentence below says what happens">
        ${wide > 0 && html`<${Diagram} run=${run} geometry=${geometry} layout=${layoutOf(seen)} />`}</div></div>
    <figcaption class=${at === last ? "ended" : ""}><span role="status">${TOLD[at]}</span>
      <button type="button" onClick=${() => setAt(at === last ? 0 : last)}>${at === last ? "Play again" : "To the end"}</button></figcaption></figure>`;
}

export function Main() {
  const count = lessons.value.length;
  return html`<main class="first">
    <div class="hero"><h2>Break a distributed algorithm, and see the move that broke it.</h2>
      <p>You deliver the messages. The laboratory has searched all that can follow, and says what each move leads to.</p></div>
    ${problem.value && html`<div class="notice bad" role="alert"><p>${problem.value.error}</p></div>`}
    ${film.value && html`<${Film} ...${film.value} />`}
    <div class="doors">
      <a class="door" href=${BREAK}><h3>Break something</h3><p>Take this run over at move 2, while it can still be saved. Then the other algorithms, with crashes and lost messages.</p></a>
      <a class="door" href="#/learn"><h3>Learn</h3><p>${count ? `${count} lessons` : "Lessons"}, one idea to a page and something to do on each. Then challenges, judged by the fewest moves.</p></a>
      <details class="door"><summary><h3>Your own algorithm</h3><p>A Python class with a method for each input is all it takes.</p></summary><p>Save this as <code>naive.py</code>, and open it with
        <code>coterie lab './naive.py:Naive 3'</code>. It is wrong: press <kbd>f</kbd> to see why.</p><pre tabindex="0" aria-label="naive.py">${OWN}</pre></details>
    </div></main>`;
}
