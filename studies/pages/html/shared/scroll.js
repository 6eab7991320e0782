"use strict";
// A box that scrolls sideways can be reached by keyboard; one that has no need to is no stop for Tab.

(function () {
  function update() {
    for (const box of document.querySelectorAll(".wide")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  window.addEventListener("load", update);
  window.addEventListener("resize", update);
  document.addEventListener("toggle", update, true);
})();
