// A chart over time: both axes, the unit, the last value.
import { html } from "./ui.js";
import { useLayoutEffect, useRef, useState } from "./vendor/hooks.js";

const LEFT = 40, RIGHT = 52, TOP = 12, BOTTOM = 26, HEIGHT = 168;

/** The least number that is not below a value and has a round half: 2, 4 or 10 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [2, 4, 10, 20].map((each) => each * power).find((each) => each >= value);
}

const ago = (seconds) => (seconds < 1 ? "now" : seconds < 120 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`);

/** `points` are [moment, value], the oldest first; `isSteps` draws values that hold until the next. */
export function Chart({ title, unit, points, isSteps = false }) {
  const frame = useRef(null);
  const [wide, setWide] = useState(0);
  useLayoutEffect(() => {
    const sizes = new ResizeObserver(() => setWide(frame.current.clientWidth));
    sizes.observe(frame.current);
    return () => sizes.disconnect();
  }, []);
  const last = points.at(-1), span = last ? Math.max(10, last[0] - points[0][0]) : 10, top = roundUp(Math.max(1, ...points.map(([, value]) => value)));
  const x = (moment) => LEFT + (wide - LEFT - RIGHT) * (1 - (last[0] - moment) / span), y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const line = points.map(([moment, value], i) => `${i === 0 ? "M" : isSteps ? `H${x(moment).toFixed(1)}V` : "L"}${i > 0 && isSteps ? y(value).toFixed(1) : `${x(moment).toFixed(1)} ${y(value).toFixed(1)}`}`).join("");
  const said = last ? `${Math.round(last[1])} now, ${Math.round(Math.max(...points.map(([, value]) => value)))} at most in the last ${Math.round(span)} seconds` : "nothing yet";
  return html`<figure class="chart-figure" ref=${frame}><figcaption><h2>${title} <span class="quiet">${unit}</span></h2></figcaption>
    ${wide > 0 && points.length > 1 ? html`<svg class="chart" width=${wide} height=${HEIGHT} role="img" aria-label="${title}: ${said}">
      ${[0, top / 2, top].map((value) => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${wide - RIGHT} y1=${y(value)} y2=${y(value)} /><text class="end" x=${LEFT - 8} y=${y(value) + 4}>${value}</text></g>`)}
      <text x=${LEFT} y=${HEIGHT - 6}>${ago(span)}</text><text class="middle" x=${x(last[0] - span / 2)} y=${HEIGHT - 6}>${ago(span / 2)}</text><text class="end" x=${wide - RIGHT} y=${HEIGHT - 6}>now</text>
      <path class="area" d="${line}V${y(0)}H${x(points[0][0])}Z" /><path class="curve" d=${line} /><text class="last" x=${wide - RIGHT + 6} y=${y(last[1]) + 4}>${Math.round(last[1])}</text>
    </svg>` : html`<p class="empty">It is drawn from what this page sees; wait a moment.</p>`}</figure>`;
}
