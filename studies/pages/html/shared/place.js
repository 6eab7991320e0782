"use strict";
// Where on the page the reader is: the section in the middle of the window, which is in the address
// as "at". Sections learn of it by pagePlace.listen((name) => ...); the name is "" elsewhere.

const pagePlace = (function () {
  const names = [...document.querySelectorAll("main section[id]:not(#play, #story)")].map((section) => section.id);
  const middle = new Set();
  const listeners = [];
  let current = "";

  function move(name) {
    if (name === current) return;
    current = name;
    for (const listener of listeners) listener(name);
  }

  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) middle.add(target.id);
      else middle.delete(target.id);
    }
    move(names.find((name) => middle.has(name)) ?? "");
    pageState.changed();
  }, { rootMargin: "-50% 0px -50% 0px" });
  for (const name of names) observer.observe(document.getElementById(name));

  pageState.add({
    at: {
      get: () => current,
      set: (text) => {
        move(names.includes(text) ? text : "");
        // when all sections have drawn what the address says
        if (current) requestAnimationFrame(() => document.getElementById(text).scrollIntoView());
      },
    },
  });
  return { listen: (listener) => listeners.push(listener) };
})();
