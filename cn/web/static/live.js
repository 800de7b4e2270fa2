// Replace the parts of a page that have changed, and say when the server is gone.
"use strict";
(() => {
  const body = document.body;
  const gone = document.getElementById("gone");
  const started = new Set();

  document.addEventListener("input", (event) => {
    const part = event.target.closest(".part");
    if (part) started.add(part.id);
  });

  function refresh(name) {
    const part = document.getElementById("part-" + name);
    if (!part) return;
    const form = part.querySelector("form.decide");
    if (form && started.has(part.id)) {
      form.querySelector(".stale").hidden = false; // what somebody writes is not taken from under their hands
    } else {
      htmx.trigger(part, "changed");
    }
  }

  const address = body.dataset.live + "&seen=" + encodeURIComponent(body.dataset.seen);
  const stream = new EventSource(address);
  stream.addEventListener("changed", (event) => event.data.split(" ").forEach(refresh));
  stream.addEventListener("open", () => { gone.hidden = true; });
  stream.addEventListener("error", () => { gone.hidden = false; });
  window.addEventListener("pagehide", () => stream.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
})();
