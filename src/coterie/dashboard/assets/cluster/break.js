// The end of a hold, for those whose program has the operator secret: with the name of the lock typed out.
import { ask } from "../access.js";
import { html } from "../ui.js";
import { useState } from "../vendor/hooks.js";
import { signal } from "../vendor/signals.js";
import { paused, trouble } from "./state.js";

const allowed = signal(false);

export async function askRight() {
  try {
    const answer = await ask("/api/cluster/break");
    allowed.value = answer.ok && (await answer.json()).allowed;
  } catch { /* the verdict says that nothing answers */ }
}

/** The largest token of the holders: a hold with a larger one began later. Null: one does not answer, so has none. */
function tokenOf(lock) {
  if (lock.silent.length > 0) return null;
  return String(lock.holders.map((holder) => BigInt(holder.token ?? 0)).reduce((a, b) => (a > b ? a : b)));
}

/** What has become of the holds, in the words of `coterie break`. */
function inWords({ told, ended, failed, troubles }) {
  const lines = [...ended, ...failed, ...Object.entries(troubles).map(([node, reason]) => `node ${node} could not be asked: ${reason}`)];
  if (told.length > 0) lines.unshift(`Told to stop: ${told.join(", ")}`);
  return lines.length > 0 ? lines : ["It is not held any more"];
}

async function give(order) {
  try {
    const answer = await ask("/api/cluster/break", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) });
    return answer.ok ? inWords(await answer.json()) : [await answer.text()];
  } catch {
    return ["The program that serves this page does not answer: look whether the hold has ended"];
  }
}

/** The form in the row of a lock; `children` stand there for those who have no right to it. */
export function EndHold({ lock, children }) {
  const [typed, setTyped] = useState(""), [said, setSaid] = useState([]), [isUnderWay, setUnderWay] = useState(false);
  if (!allowed.value) return children;
  const isHeld = lock.holders.length + lock.silent.length > 0;
  async function send(event) {
    event.preventDefault();
    setUnderWay(true);
    setSaid(["Telling the nodes"]);
    setSaid(await give({ lock: lock.name, typed, token: tokenOf(lock) }));
    setTyped("");
    setUnderWay(false);
  }
  const isOpen = isHeld && !isUnderWay && !paused.value && !trouble.value;
  return html`<form class="end-hold" onSubmit=${send}><h3>End the hold</h3>
    <p class="small">The program is told that its lock is lost, and the next in line gets a larger token. Code that heeds neither the loss nor
      the token goes on beside the next holder: look first whether that does harm.</p>
    <div class="row"><label class="small">Type the name of the lock <input type="text" autocomplete="off" autocapitalize="off" spellcheck="false" disabled=${!isOpen} value=${typed} onInput=${(event) => { setTyped(event.currentTarget.value); }} /></label>
      <button type="submit" class="danger" disabled=${!isOpen || typed !== lock.name}>End the hold</button></div>
    <div role="status" class="small">${said.map((line) => html`<p key=${line}>${line}</p>`)}</div></form>`;
}
