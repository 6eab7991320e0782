"use strict";
// What the views of pretrained models say in words, and their table.

const VIEWS_NAMES = { informative: "informative word", distractor: "distractor", neutral: "neutral word", special: "special token" };
const VIEWS_QUANTITIES = { attention: "attention", k: "coordinate along k̂", v: "coordinate along v̂" };

const viewsLayerName = (layer) => (layer ? `layer ${layer}` : "layer 0, the embeddings");
const viewsNumber = (reading, x) => (reading.isAttention ? fixed(x) : signed(x));

function viewsHeadName({ model, head }) {
  return head === "mean" || head === "largest" ? `${head} over ${model.heads} heads` : `head ${head}`;
}

function viewsTitle(reading) {
  const { model, sentence, show } = reading;
  const summary = `attention of its summary token, “${sentence.tokens[sentence.summary]}”, ${viewsHeadName(reading)}`;
  return `${model.name} reads “${sentence.text}” (${sentence.label}); ${reading.isAttention ? summary : VIEWS_QUANTITIES[show]}.`;
}

// A token, what it is, and its layer.
function viewsCellName({ sentence }, { layer, token }) {
  return [`${sentence.tokens[token]}`, VIEWS_NAMES[sentence.roles[token]], viewsLayerName(layer)];
}

// All about a cell, as texts and elements.
function viewsDetail(reading, { layer, token }) {
  const { show, head } = reading;
  const [word, role, place] = viewsCellName(reading, { layer, token });
  const parts = [`“${word}” (${role}), ${place}: `];
  parts.push(htmlElement("strong", {}, `${VIEWS_QUANTITIES[show]} ${viewsNumber(reading, reading.value(token, layer))}`));
  if (reading.isAttention) parts.push(` (${viewsHeadName(reading)})`);
  if (layer) {
    const all = reading.heads(token, layer);
    const [mean, most] = [reading.attention(token, layer, "mean"), Math.max(...all)];
    if (!reading.isAttention) parts.push(`; attention ${fixed(mean)}`);
    else if (head !== "mean") parts.push(`; mean over heads ${fixed(mean)}`);
    parts.push(`, most in head ${all.indexOf(most) + 1}: ${fixed(most)}`);
  }
  for (const name of ["k", "v"]) if (name !== show) parts.push(`; along ${name}̂ ${signed(reading.coordinate(name, token, layer))}`);
  return [...parts, "."];
}

function viewsLegend(reading) {
  const { show, layers, scale, sentence, isAttention } = reading;
  const spelled = (role) => `“${reading.tokensOf(role).map((i) => sentence.tokens[i]).join(" ")}”`;
  const hasDistractor = sentence.roles.includes("distractor");
  const distractor = hasDistractor ? `dashed frame: a distractor, ${spelled("distractor")}` : "this sentence has no distractor";
  const said = [`Solid frame: the informative word, ${spelled("informative")}; ${distractor}.`];
  said.push({
    attention: "Each row of one head sums to 1 over the tokens.",
    k: "Blue: above 0; grey: below 0.",
    v: "Orange: positive; purple: negative.",
  }[show]);
  if (show === "k") {
    const hits = layers.filter((layer) => sentence.roles[reading.highest(layer)] === "informative").length;
    said.push(`Dot: the highest word of the layer, which is the informative one in ${hits} of ${layers.length} layers.`);
  }
  const { all, beyond, farthest } = reading.extremes;
  if (beyond) {
    const count = `${beyond} of ${all} values; the farthest is ${viewsNumber(reading, farthest)}`;
    said.push(`Stroke: beyond the scale, in the colour of its end, ${isAttention ? "" : "±"}${scale} (${count}).`);
  }
  return said.join(" ");
}

// The parts of the table of all values of a picture.
function viewsTable(reading) {
  const { layers, sentence } = reading;
  const cell = (text) => htmlElement("td", { class: "number" }, text);
  const words = sentence.tokens.map((token) => htmlElement("th", { scope: "col", class: "number" }, token));
  const head = htmlElement("tr", {}, htmlElement("th", { scope: "col" }, "layer"), ...words);
  const rows = [...layers].reverse().map((layer) => htmlElement(
    "tr", {}, htmlElement("th", { scope: "row" }, String(layer)),
    ...words.map((_, token) => cell(viewsNumber(reading, reading.value(token, layer)))),
  ));
  return [htmlElement("caption", {}, viewsTitle(reading)), htmlElement("thead", {}, head), htmlElement("tbody", {}, ...rows)];
}
