// What all pages share: the template language, words for times, the switch between light and dark.
import { h } from "./vendor/preact.js";
import { useEffect, useRef } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
import { signal } from "./vendor/signals.js";

export const html = htm.bind(h);

// Moments come from the machine that serves the page, whose clock may differ from the reader's.
let ahead = 0;
export const now = signal(Date.now() / 1000);
setInterval(() => { now.value = Date.now() / 1000 + ahead; }, 1000);

export function setClock(moment) {
  ahead = moment - Date.now() / 1000;
  now.value = moment;
}

const SIGNS = { good: "✓", warning: "!", bad: "✕" };

/** A state by sign, word and colour, so that none of them has to be seen alone. */
export function Chip({ look, children }) {
  return html`<span class="chip ${look}"><span aria-hidden="true">${SIGNS[look]}</span><span>${children}</span></span>`;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A length of time as people say it: 4.2 s, 3 min, 2 h, 5 d. */
export function age(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function clock(moment) {
  return new Date(moment * 1000).toLocaleTimeString([], { hour12: false });
}

const THEMES = ["system", "light", "dark"];
const theme = signal(readTheme());

function readTheme() {
  try { return localStorage.getItem("coterie-theme") ?? "system"; } catch { return "system"; }
}

function applyTheme(wanted) {
  if (wanted === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}
applyTheme(theme.value);

function ThemeSwitch() {
  function change(event) {
    theme.value = event.currentTarget.value;
    applyTheme(theme.value);
    try { localStorage.setItem("coterie-theme", theme.value); } catch { /* a page without storage forgets */ }
  }
  return html`<label>theme <select value=${theme.value} onChange=${change}>
    ${THEMES.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
  </select></label>`;
}

const Links = ({ pages, current }) => pages.map(([text, name, address]) => html`<li key=${name}><a href=${address} aria-current=${current === name ? "page" : undefined}>${text}</a></li>`);

// The head of every page. `groups` are lists of pages, each with a name: [["Run", [[text, name, address], …]], …].
// `items` stand in the menu, before the theme; what is said and pressed often stands in the line as `children`.
export function Head({ title, home, groups = [], current, items, children }) {
  const menu = useRef(null);
  useEffect(() => {
    const close = (event) => { if (event.type === "hashchange" || !menu.current.contains(event.target)) menu.current.open = false; };
    document.addEventListener("click", close);
    addEventListener("hashchange", close);
    return () => { document.removeEventListener("click", close); removeEventListener("hashchange", close); };
  }, []);
  function press(event) {
    if (event.key !== "Escape" || !menu.current.open) return;
    event.stopPropagation();
    menu.current.open = false;
    menu.current.querySelector("summary").focus();
  }
  const sign = html`<svg viewBox="0 0 32 32" aria-hidden="true"><circle class="a" cx="12" cy="12" r="8" /><circle class="b" cx="20" cy="12" r="8" /><circle class="c" cx="16" cy="20" r="8" /></svg>`;
  return html`<header class="head"><div class="head-line">
    <h1>${home ? html`<a class="brand" href=${home}>${sign}${title}</a>` : html`<span class="brand">${sign}${title}</span>`}</h1>
    ${groups.length > 0 && html`<nav class="groups" aria-label="pages">${groups.map(([name, pages]) => html`<ul key=${name} aria-label=${name}><${Links} pages=${pages} current=${current} /></ul>`)}</nav>`}
    <span class="spring"></span>${children}
    <details class="menu" ref=${menu} onKeyDown=${press}><summary>Menu</summary><div class="menu-items">
      ${groups.length > 0 && html`<nav class="only-narrow" aria-label="all pages">${groups.map(([name, pages]) => html`<h2 key=${name}>${name}</h2><ul><${Links} pages=${pages} current=${current} /></ul>`)}</nav>`}
      ${items}<${ThemeSwitch} />
    </div></details></div></header>`;
}

/** A small line of the last values; the table beside it has the numbers. */
export function Sparkline({ values, label }) {
  const most = Math.max(1, ...values);
  const step = 300 / Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)},${(46 - 44 * value / most).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 300 48" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" />
  </svg>`;
}

const DRAWN = 1.7; // as many times its own size a drawing may grow, to be read from the last row

/** A drawing of the server as part of the page, so that it has the page's colours. */
export function Drawing({ svg, label }) {
  const frame = useRef(null);
  useEffect(() => {
    const bare = svg.replace(/<style>[^<]*<\/style>/, ""); // the page's own sheet has these rules
    const drawn = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
    drawn.querySelector("svg > title")?.remove();
    drawn.setAttribute("aria-label", label);
    drawn.style.maxWidth = `${DRAWN * Number(drawn.getAttribute("width"))}px`;
    drawn.removeAttribute("width");
    drawn.removeAttribute("height");
    frame.current.replaceChildren(document.adoptNode(drawn));
  }, [svg, label]);
  return html`<div class="drawing" ref=${frame}></div>`;
}

/** Hand the reader a file. */
export function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
