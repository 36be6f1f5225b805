// What a message is for, by its name: the same colour on every page. A name that is not here has the first one.
const KINDS = {
  ask: ["Request", "Election", "Want", "Prepare", "Ask", "Query", "Claim"],
  grant: ["Grant", "Reply", "Locked", "Token", "Vote", "Promise", "Ok", "Accepted", "Given", "Holding", "Allright", "Answer", "Ack", "Acknowledge", "Confirmed"],
  refuse: ["Refused", "Failed", "Denied", "Deny", "Nack", "Queued", "Waiting", "Stale", "Behind"],
  inquire: ["Inquire", "Probe", "IsAllright", "Census", "Confirm", "Beat"],
  release: ["Release", "Relinquish", "Return", "Unhold", "Close", "Closed", "Bye", "Settled", "Ended"],
  announce: ["Coordinator", "Elected", "NewConfiguration", "Welcome", "Term", "Change", "Report", "Accept", "Detection", "Obituary", "Up", "Down", "Recover"],
};
const KIND_OF = new Map(Object.entries(KINDS).flatMap(([kind, names]) => names.map((name) => [name, kind])));

export const ORDER = Object.keys(KINDS);

/** Return the kind of a message from how it is written: `Request(1.2)` asks. */
export const kindOf = (label) => KIND_OF.get(/^\w+/.exec(label)?.[0]) ?? ORDER[0];
