"use strict";
// What the reader has set, in the URL's hash, so that it can be linked to: #text=...&gate=softmax.
//
// A section of the page registers its part under names of its own:
//   pageState.add({ gate: { get: () => value or "" at the default, set: (value) => ... } })
// set gets a text that may be anything, or "" for the default. After a change a section calls
// pageState.changed(), and after all sections are registered the page calls pageState.restore().

const pageState = (function () {
  const parts = new Map();
  let waiting = null;

  function add(entries) {
    for (const [name, entry] of Object.entries(entries)) parts.set(name, entry);
  }

  function hash() {
    const values = new URLSearchParams();
    for (const [name, { get }] of parts) {
      const value = get();
      if (value !== "") values.set(name, value);
    }
    const text = values.toString();
    return text && `#${text}`;
  }

  // The address of the page as it is now.
  const link = () => location.href.split("#")[0] + hash();

  // A browser takes few changes of the address per second: it is set when the reader pauses.
  function changed() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const bare = location.href.split("#")[0];
      // a hash that names a section stays, if there is nothing else to say
      if (hash() || location.hash.includes("=")) history.replaceState(null, "", hash() || bare);
    }, 200);
  }

  // Set every part to what the hash says. A hash without "=" is the name of a section.
  function restore() {
    if (location.hash && !location.hash.includes("=")) return;
    const values = new URLSearchParams(location.hash.slice(1));
    for (const [name, { set }] of parts) set(values.get(name) ?? "");
  }

  // The reader's own change of the address, forwards and back; ours makes no such event.
  window.addEventListener("hashchange", restore);
  return { add, changed, link, restore };
})();
