// Pictures of runs that can be played, where these pages are served as HTML:
//   <coterie-run src="pictures/maekawa-basic.html"><img src="pictures/maekawa-basic.svg" alt="…"></coterie-run>
// Without script the picture stays. A picture that has a page of the same name beside it gets such an element by itself;
// `python docs/record.py --live` writes these pages, and `coterie lab --export` or `--trace FILE.html` any other.
class CoterieRun extends HTMLElement {
  connectedCallback() {
    if (this.querySelector("button")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Play this run";
    button.addEventListener("click", () => this.play());
    this.style.display = "block";
    this.append(button);
  }

  play() {
    const frame = document.createElement("iframe");
    frame.title = this.querySelector("img")?.alt || "a run that can be played";
    frame.sandbox = "allow-scripts"; // a stranger to this page: it can read and change nothing here
    frame.src = this.getAttribute("src");
    Object.assign(frame.style, { width: "100%", height: "40rem", border: "1px solid #8888", borderRadius: "8px" });
    this.replaceChildren(frame);
  }
}
customElements.define("coterie-run", CoterieRun);

async function enliven(image) {
  const page = image.src.replace(/\.svg$/, ".html");
  const found = await fetch(page, { method: "HEAD" }).catch(() => null);
  if (!found?.ok || image.closest("coterie-run")) return;
  const run = document.createElement("coterie-run");
  run.setAttribute("src", page);
  image.replaceWith(run);
  run.prepend(image);
}
if (location.protocol.startsWith("http")) document.querySelectorAll('img[src*="pictures/"][src$=".svg"]').forEach(enliven);
