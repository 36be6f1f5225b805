// Where the names of messages stand: beside their arrows, where nothing else is. A name without room is left out.
const SHARES = [0.5, 0.38, 0.62, 0.26, 0.74, 0.14, 0.86]; // along the arrow, the middle first
const HEIGHT = 12;
const AWAY = 3; // from the own arrow

const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

/** Whether a stretch of a straight line is in a box: what is left of it after each side has cut. */
function crosses({ x1, y1, x2, y2 }, [left, top, right, bottom]) {
  let from = 0, to = 1;
  for (const [start, step, low, high] of [[x1, x2 - x1, left, right], [y1, y2 - y1, top, bottom]]) {
    if (step === 0) {
      if (start <= low || start >= high) return false;
    } else {
      const one = (low - start) / step, other = (high - start) / step;
      from = Math.max(from, Math.min(one, other));
      to = Math.min(to, Math.max(one, other));
    }
  }
  return from < to;
}

/** The boxes beside an arrow that touch it nowhere, the best first. */
function* boxesBeside({ x1, y1, x2, y2 }, width) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1, right = (y2 - y1) / length, down = (x1 - x2) / length;
  // A box clears a line by half of its extent across the line.
  const away = AWAY + (width * Math.abs(right) + HEIGHT * Math.abs(down)) / 2;
  for (const share of SHARES) {
    for (const side of down < 0 ? [1, -1] : [-1, 1]) { // above it first
      const x = x1 + (x2 - x1) * share + side * away * right, y = y1 + (y2 - y1) * share + side * away * down;
      yield [x - width / 2, y - HEIGHT / 2, x + width / 2, y + HEIGHT / 2];
    }
  }
}

/**
 * Find a box for the label of each arrow, `[left, top, right, bottom]`, or null. It meets no other box, no arrow, none of
 * `taken`, and lies within `frame`. Those for which `isWanted(arrow)` come first, and always have one.
 */
export function placeLabels(arrows, widthOf, taken, frame, isWanted = () => false) {
  const boxes = [...taken], found = new Map();
  const isFree = (box) => box[0] >= frame[0] && box[1] >= frame[1] && box[2] <= frame[2] && box[3] <= frame[3] && !boxes.some((other) => meet(box, other));
  for (const each of [...arrows.filter(isWanted), ...arrows.filter((arrow) => !isWanted(arrow))]) {
    const beside = [...boxesBeside(each, widthOf(each))];
    let box = beside.find((candidate) => isFree(candidate) && !arrows.some((arrow) => crosses(arrow, candidate))) ?? null;
    if (box === null && isWanted(each)) box = beside.find(isFree) ?? beside[0];
    if (box !== null) boxes.push(box);
    found.set(each, box);
  }
  return arrows.map((each) => found.get(each));
}
