// Replace the parts of a page that have changed, and say when the server is gone.
"use strict";
(() => {
  const body = document.body;
  const gone = document.getElementById("gone");

  // A form decides about what was shown with it. What came since takes its place by the reader's own step alone, never
  // under their hands: else a branch that moves while somebody reads is decided as it was not read.
  async function keepForm(part, form) {
    const answer = await fetch(part.getAttribute("hx-get"));
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(part.id);
    if (!fresh) return;
    const other = fresh.querySelector("form.decide");
    const said = other && other.querySelector(".stale");
    if (form && other) {
      if (other.elements.seen.value !== form.elements.seen.value) form.querySelector(".stale").hidden = false;
      return;
    }
    if (other) { // it would be newer than what stands above it: its notice alone, which leads to it
      said.hidden = false;
      other.replaceWith(said);
    }
    part.replaceChildren(...fresh.childNodes);
  }

  function refresh(name) {
    const part = document.getElementById("part-" + name);
    if (!part) return;
    const form = part.querySelector("form.decide");
    if (name === "decide") keepForm(part, form).catch(() => { if (form) form.querySelector(".stale").hidden = false; });
    else htmx.trigger(part, "changed");
  }

  const address = body.dataset.live + "&seen=" + encodeURIComponent(body.dataset.seen);
  const stream = new EventSource(address);
  stream.addEventListener("changed", (event) => event.data.split(" ").forEach(refresh));
  stream.addEventListener("open", () => { gone.hidden = true; });
  stream.addEventListener("error", () => { gone.hidden = false; });
  window.addEventListener("pagehide", () => stream.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
})();
