"use strict";
// The sentence as chips: each word with its attention and, if the grammar has a place for it, a menu
// of the words that could stand there.

// Whether menus are as wide as the word that they show (story.css).
const fitting = CSS.supports("field-sizing", "content");

// A function that shows a reading in the box. choose(text) is called with the changed sentence.
function makeChips(box, slots, isKnown, choose) {
  let shown = null; // the reading
  let chips = []; // kept while the menu offers the word, so that the focus stays, and the way back

  function option(word, missing) {
    const label = word === "" ? "(leave out)" : missing ? `${word} [UNK]` : word;
    return htmlElement("option", { value: word }, label);
  }

  function menu(word, groups) {
    const select = htmlElement("select", {});
    const seen = new Set();
    for (const { name, words, optional } of groups) {
      const fresh = words.filter((each) => !seen.has(each));
      fresh.forEach((each) => seen.add(each));
      if (!fresh.length) continue;
      const group = htmlElement("optgroup", { label: name }, ...fresh.map((each) => option(each, !isKnown(each))));
      if (optional) group.append(option("", false));
      select.append(group);
    }
    select.addEventListener("change", () => {
      const place = chips.findIndex((chip) => chip.menu === select);
      choose(replaced(shown.text, shown.spans[place], select.value));
      chips[place]?.menu?.focus(); // of the chip that has taken its place
    });
    return select;
  }

  function chip(word, groups) {
    const select = groups.length ? menu(word, groups) : null;
    const name = select ?? htmlElement("span", { class: "word" });
    const unknown = htmlElement("span", { class: "unknown" }, "[UNK]");
    const fill = htmlElement("i");
    const share = htmlElement("span", { class: "share" });
    const element = htmlElement("span", { class: "chip" }, name, unknown, htmlElement("span", { class: "meter" }, fill), share);
    const offered = new Set(groups.flatMap((slot) => slot.words));
    return { element, menu: select, name, share, offers: (each) => (select ? offered.has(each) : !menuOf(each, slots).length) };
  }

  return function draw(reading) {
    shown = reading;
    const most = Math.max(...reading.attention);
    const next = reading.words.map((word, i) => {
      const kept = chips.length === reading.words.length && chips[i].offers(word);
      const one = kept ? chips[i] : chip(word, reading.spans[i] ? menuOf(word, slots) : []);
      const attention = reading.attention[i];
      if (one.menu) {
        one.menu.value = word;
        if (!fitting) one.menu.style.width = `${word.length + 3.5}ch`; // else as wide as its longest word
        one.menu.setAttribute("aria-label", `word ${i}, attention ${attention.toFixed(2)}${reading.unknown[i] ? ", unknown to the model" : ""}`);
      } else {
        one.name.textContent = word;
      }
      one.share.textContent = attention.toFixed(2);
      one.element.style.setProperty("--share", attention.toFixed(4));
      one.element.classList.toggle("special", !reading.spans[i]);
      one.element.classList.toggle("new", reading.unknown[i]);
      one.element.classList.toggle("most", attention === most);
      return one;
    });
    if (next.length !== chips.length || next.some((one, i) => one !== chips[i])) {
      box.replaceChildren(...next.map((one) => one.element));
    }
    chips = next;
  };
}
