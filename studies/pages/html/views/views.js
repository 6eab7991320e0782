"use strict";
// The interactive token view: one sentence at a time, its tokens as buttons, one token in detail.
// Its data is the JSON of studies/pages/tokens.py.

(function () {
  const source = document.getElementById("token-data");
  if (!source) return;
  const models = JSON.parse(source.textContent);
  const find = (id) => document.getElementById("token-" + id);
  const row = find("row");
  const state = { chosen: 0 };

  const ROLES = { informative: "informative word", distractor: "distractor", neutral: "neutral word", special: "special token" };
  const signed = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);

  function model() { return models[find("model").value]; }
  function sentence() { return model().sentences[find("sentence").value]; }

  // All that can be shown of a token: id, label, full scale, and the value of token i.
  function quantities() {
    const found = [];
    model().heads.forEach(({ layer, head }, h) => found.push({
      id: "attention-" + h, label: `attention, layer ${layer} head ${head}`, short: `layer ${layer} head ${head}`, kind: "share",
      value: (s, i) => s.attention[h][i],
    }));
    model().layers.forEach((layer, l) => {
      for (const name of ["k", "v"]) {
        found.push({
          id: `${name}-${l}`, label: `along ${name}̂, read by layer ${layer}`, short: `${name}̂, layer ${layer}`, kind: "signed",
          value: (s, i) => s[name][l][i],
        });
      }
    });
    found.push({ id: "masking", label: "effect of masking", short: "masking", kind: "signed", value: (s, i) => s.masking[i] });
    return found;
  }

  function scaleOf(quantity) {
    if (quantity.kind === "share") return 1;
    const s = sentence();
    const sizes = s.tokens.map((_, i) => Math.abs(quantity.value(s, i) ?? 0));
    return Math.max(1, ...sizes);
  }

  function option(value, text) {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    return made;
  }

  function fillModels() {
    find("model").replaceChildren(...models.map((one, i) => option(i, one.name)));
  }

  function fillSentences() {
    const kept = find("sentence").value;
    const groups = new Map();
    model().sentences.forEach((one, i) => {
      if (!groups.has(one.split)) {
        const group = document.createElement("optgroup");
        group.label = one.split;
        groups.set(one.split, group);
      }
      groups.get(one.split).append(option(i, one.text));
    });
    find("sentence").replaceChildren(...groups.values());
    if (kept) find("sentence").value = kept;
    find("shade").replaceChildren(...quantities().map((one) => option(one.id, one.label)));
  }

  function shade(button, value, scale, kind) {
    const strength = value === null ? 0 : Math.min(1, Math.abs(value) / scale);
    const colour = kind === "signed" && value < 0 ? "213, 94, 0" : "0, 114, 178";
    button.style.backgroundColor = `rgba(${colour}, ${(0.9 * strength).toFixed(3)})`;
    button.classList.toggle("dark", strength > 0.62);
  }

  function drawRow() {
    const s = sentence();
    const quantity = quantities().find((one) => one.id === find("shade").value);
    const scale = scaleOf(quantity);
    const buttons = s.tokens.map((token, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "token " + s.roles[i];
      button.textContent = token;
      button.dataset.index = i;
      button.setAttribute("aria-label", `${token}, ${ROLES[s.roles[i]]}`);
      shade(button, quantity.value(s, i), scale, quantity.kind);
      return button;
    });
    row.replaceChildren(...buttons);
    const answer = s.logit > 0 ? "positive" : "negative";
    const verdict = answer === s.label ? "✔ right" : "✘ wrong";
    find("answer").textContent = `Label: ${s.label}. The model says ${answer} (${verdict}); logit difference ${signed(s.logit)}.`;
    drawTable();
  }

  function select(index, keep = true) {
    if (keep) state.chosen = index;
    for (const button of row.children) {
      const on = Number(button.dataset.index) === index;
      button.setAttribute("aria-pressed", on);
      button.tabIndex = Number(button.dataset.index) === state.chosen ? 0 : -1;
    }
    drawDetail(index);
  }

  function bar(quantity, value, scale) {
    const line = document.createElement("div");
    line.className = "bar";
    const label = document.createElement("span");
    label.textContent = quantity.label;
    const track = document.createElement("span");
    track.className = "track";
    const number = document.createElement("span");
    number.className = "value";
    if (value === null) {
      number.textContent = "none";
    } else {
      const fill = document.createElement("i");
      const share = Math.min(1, Math.abs(value) / scale) * (quantity.kind === "share" ? 100 : 50);
      fill.style.width = share + "%";
      fill.style.left = (quantity.kind === "share" ? 0 : value < 0 ? 50 - share : 50) + "%";
      fill.classList.toggle("negative", value < 0);
      track.append(fill);
      if (quantity.kind === "signed") {
        const zero = document.createElement("b");
        zero.style.left = "50%";
        track.append(zero);
      }
      number.textContent = quantity.kind === "share" ? value.toFixed(3) : signed(value);
    }
    line.append(label, track, number);
    return line;
  }

  function drawDetail(index) {
    const s = sentence();
    const title = document.createElement("h3");
    title.textContent = `“${s.tokens[index]}”: ${ROLES[s.roles[index]]}${s.unknown[index] ? ", unknown to the model, which sees [UNK]" : ""}`;
    const bars = quantities().map((one) => bar(one, one.value(s, index), scaleOf(one)));
    find("detail").replaceChildren(title, ...bars);
  }

  function drawTable() {
    const s = sentence();
    const shown = quantities();
    const head = document.createElement("tr");
    for (const name of ["token", ...shown.map((one) => one.short)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      if (name !== "token") cell.className = "number wrap";
      cell.textContent = name;
      head.append(cell);
    }
    const lines = s.tokens.map((token, i) => {
      const line = document.createElement("tr");
      const name = document.createElement("th");
      name.scope = "row";
      name.textContent = token;
      line.append(name);
      for (const one of shown) {
        const cell = document.createElement("td");
        const value = one.value(s, i);
        cell.className = "number";
        cell.textContent = value === null ? "none" : one.kind === "share" ? value.toFixed(3) : signed(value);
        line.append(cell);
      }
      return line;
    });
    find("table").replaceChildren(head, ...lines);
  }

  function changeSentence() {
    drawRow();
    select(sentence().roles.indexOf("informative"));
  }

  row.addEventListener("click", (event) => {
    if (event.target.dataset.index) select(Number(event.target.dataset.index));
  });
  row.addEventListener("focusin", (event) => {
    if (event.target.dataset.index) select(Number(event.target.dataset.index));
  });
  row.addEventListener("pointerover", (event) => {
    if (event.pointerType === "mouse" && event.target.dataset.index) select(Number(event.target.dataset.index), false);
  });
  row.addEventListener("pointerleave", () => select(state.chosen));
  row.addEventListener("keydown", (event) => {
    const last = row.children.length - 1;
    const to = {
      ArrowRight: Math.min(last, state.chosen + 1), ArrowDown: Math.min(last, state.chosen + 1),
      ArrowLeft: Math.max(0, state.chosen - 1), ArrowUp: Math.max(0, state.chosen - 1),
      Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    row.children[to].focus();
  });
  find("model").addEventListener("change", () => { fillSentences(); changeSentence(); });
  find("sentence").addEventListener("change", changeSentence);
  find("shade").addEventListener("change", () => { drawRow(); select(state.chosen); });

  fillModels();
  fillSentences();
  changeSentence();
})();
