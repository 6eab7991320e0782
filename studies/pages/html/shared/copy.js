"use strict";
// Every button of the class "copy" copies a link to the page as it is now.

(function () {
  const here = location.protocol === "file:" ? " (for this computer: the page is not on a server)" : "";

  async function copy(event) {
    const button = event.currentTarget;
    const name = button.dataset.name ?? button.textContent;
    button.dataset.name = name;
    try {
      await navigator.clipboard.writeText(pageState.link());
      button.textContent = `Copied${here}`;
    } catch {
      button.textContent = "Copy it from the address bar"; // not allowed
    }
    announce(button.textContent);
    setTimeout(() => { button.textContent = name; }, 3000);
  }

  for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", copy);

  // On paper the controls are gone: the link says how they were set.
  window.addEventListener("beforeprint", () => {
    document.getElementById("printed").textContent = `The page as it was set: ${pageState.link()}`;
  });
})();
