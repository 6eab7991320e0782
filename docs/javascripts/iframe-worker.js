"use strict";
// A browser starts no Worker for a page that is opened from disk, and the theme's search is one. There, and
// only there, its script runs in a hidden frame, which has the page's own origin, and messages are events.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #started;

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!DOCTYPE html>";
      this.#started = new Promise((resolve, reject) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.onload = () => resolve(inside);
          script.onerror = () => reject(new Error(`cannot load ${url}`));
          script.src = url;
          inside.document.head.append(script);
        };
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.#started.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
