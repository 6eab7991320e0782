"use strict";
// The controls of the phase portrait: what the reader has chosen, as values, and as parts of the hash.

const portraitControls = (function () {
  const find = (name) => document.getElementById("portrait-" + name);
  const { rounded } = portraitNumbers;

  // 1, 2, ..., 10, and ten lengths for each further decade up to a million.
  const LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  for (let decade = 10; decade < 1e6; decade *= 10) {
    LENGTHS.push(...[1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((x) => Math.round(x * decade)));
  }
  const nearest = (length) => LENGTHS.reduce((best, x, i) => (Math.abs(x - length) < Math.abs(LENGTHS[best] - length) ? i : best), 0);

  // Sliders hold positions; what they mean is here. lam, d and L have logarithmic scales.
  const short4 = (x) => String(Number(x.toPrecision(4)));
  const SLIDERS = {
    lam: { value: (x) => 10 ** x, place: Math.log10, least: 0.01, most: 10 ** 0.5, text: (v) => v.toPrecision(2), hash: short4 },
    gamma: { value: (x) => x, place: (v) => v, least: 0.1, most: 2, text: (v) => `${v.toFixed(2)} (γ² = ${(v * v).toFixed(2)})`, hash: short4 },
    d: { value: (x) => Math.max(2, Math.round(10 ** x)), place: Math.log10, least: 2, most: 1e5, text: String, hash: String },
    L: { value: (x) => LENGTHS[x], place: nearest, least: 1, most: 1e6, text: (v) => v.toLocaleString("en"), hash: String },
    kappa: { value: (x) => x, place: (v) => v, least: -1, most: 1, text: rounded, hash: short4 },
    nu: { value: (x) => x, place: (v) => v, least: -1, most: 1, text: rounded, hash: short4 },
  };
  const OWN = ["kappa", "nu"]; // sliders of the reader's own start

  // A part of the hash as a number, or null if it is not one that the slider has.
  function parsed(text, { least, most }) {
    const number = text.trim() === "" ? NaN : Number(text);
    return number >= least * (1 - 1e-3) && number <= most * (1 + 1e-3) ? Math.max(least, Math.min(most, number)) : null;
  }

  // starts: the laws of studies/pages/portrait.py; changed() follows each change by the reader, and
  // restored() each part that the hash sets.
  function make(starts, { changed, restored }) {
    const gates = [...document.querySelectorAll("[name=portrait-gate]")];
    const places = new Map(); // of the sliders where they are not at the default, as the browser rounds
    const valueOf = (name) => SLIDERS[name].value(places.get(name) ?? Number(find(name).value));
    const put = (name, value) => {
      const place = SLIDERS[name].place(value);
      places.set(name, place);
      find(name).value = place;
    };
    const presets = new Map(starts.flatMap((law) => law.overlaps.map((overlaps, i) => [`${law.id}-${i + 1}`, { overlaps, d: law.d }])));
    const preset = () => presets.get(find("start").value);

    // The settings, with the start's five overlaps; what is shown beside the sliders agrees.
    function read() {
      const chosen = { start: find("start").value, gate: gates.find((input) => input.checked).value };
      const published = preset();
      if (published) OWN.forEach((name, i) => put(name, published.overlaps[i]));
      for (const [name, { text }] of Object.entries(SLIDERS)) {
        chosen[name] = valueOf(name);
        const shown = text(chosen[name]);
        find(name + "-value").textContent = shown;
        find(name).setAttribute("aria-valuetext", shown);
      }
      chosen.overlaps = published ? published.overlaps : [chosen.kappa, chosen.nu, 0, 0, 0];
      return chosen;
    }

    function toDefault(name) {
      find(name).value = find(name).defaultValue;
      places.delete(name);
    }

    function reset() {
      for (const name of Object.keys(SLIDERS)) toDefault(name);
      for (const input of gates) input.checked = input.defaultChecked;
      find("start").value = "";
    }

    function moveTo(kappa, nu) {
      find("start").value = "";
      put("kappa", kappa);
      put("nu", nu);
    }

    for (const name of Object.keys(SLIDERS)) {
      find(name).addEventListener("input", () => {
        places.delete(name);
        if (OWN.includes(name) && preset()) find("start").value = "";
        changed();
      });
    }
    for (const input of gates) input.addEventListener("change", changed);
    find("start").addEventListener("change", () => {
      if (preset()) put("d", preset().d); // that of the experiment, and free afterwards
      changed();
    });

    const parts = {
      gate: {
        get: () => (gates.find((input) => input.checked).defaultChecked ? "" : gates.find((input) => input.checked).value),
        set: (text) => {
          const chosen = gates.find((input) => input.value === text) ?? gates.find((input) => input.defaultChecked);
          chosen.checked = true;
          restored();
        },
      },
    };
    for (const [name, slider] of Object.entries(SLIDERS)) {
      const initial = slider.hash(slider.value(Number(find(name).defaultValue)));
      parts[name] = {
        get: () => {
          const text = slider.hash(valueOf(name));
          return text === initial || (OWN.includes(name) && preset()) ? "" : text;
        },
        set: (text) => {
          const value = parsed(text, slider);
          if (value === null) toDefault(name);
          else put(name, value);
          restored();
        },
      };
    }
    parts.start = {
      get: () => find("start").value,
      set: (text) => {
        find("start").value = presets.has(text) ? text : "";
        restored();
      },
    };
    return { read, reset, moveTo, parts };
  }

  return { make };
})();
