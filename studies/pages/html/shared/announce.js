"use strict";
// For screen readers: what the last change has done, said once the reader pauses.

const announce = (function () {
  let waiting = null;
  return function (text) {
    clearTimeout(waiting);
    waiting = setTimeout(() => { document.getElementById("announcement").textContent = text; }, 500);
  };
})();
