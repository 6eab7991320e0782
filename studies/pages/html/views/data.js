"use strict";
// Views of pretrained models, computed beforehand: the JSON of studies/pages/views.py as values.

const VIEWS_ROLES = ["neutral", "informative", "distractor", "special"]; // as in studies/pages/views.py
const VIEWS_SCALE = 1.5; // the ends of the scale of coordinates

// A model with its arrays decoded; each sentence knows its first token's row.
function decodedViews(model) {
  const coordinates = (text) => {
    const view = new DataView(bytesOf(text).buffer);
    return Float64Array.from({ length: view.byteLength / 2 }, (_, i) => view.getInt16(2 * i, true) * model.step);
  };
  let row = 0;
  const sentences = model.sentences.map((sentence) => {
    const first = row;
    row += sentence.tokens.length;
    return { ...sentence, first, roles: sentence.roles.map((role) => VIEWS_ROLES[role]) };
  });
  const [k, v] = [model.k, model.v].map(coordinates);
  return { ...model, sentences, attention: bytesOf(model.attention), k, v };
}

// The number of a sentence to begin with: of held-out structure or words, with the informative word inside.
function firstViewsSentence(sentences) {
  const isInside = ({ roles, tokens }) => roles.lastIndexOf("informative") < tokens.length - 2;
  return Math.max(0, sentences.findIndex((one) => one.split !== sentences[0].split && isInside(one)));
}

// One sentence of a model as it is shown: show is "attention", "k" or "v", and head is "mean",
// "largest" or a number. Layers go from `from` to `to`: attention has none in the embeddings.
class ViewsReading {
  constructor(model, { sentence, show, head }) {
    Object.assign(this, { model, show, head, sentence: model.sentences[sentence] });
    this.isAttention = show === "attention";
    [this.from, this.to] = [this.isAttention ? 1 : 0, model.layers];
    this.n = this.sentence.tokens.length;
    this.scale = !this.isAttention ? VIEWS_SCALE : head === "mean" ? 0.4 : 1;
  }

  // The layers that are shown, from below.
  get layers() {
    return Array.from({ length: this.to - this.from + 1 }, (_, i) => this.from + i);
  }

  // The attention of every head at a token.
  heads(token, layer) {
    const { attention, heads, layers } = this.model;
    const start = ((this.sentence.first + token) * layers + layer - 1) * heads;
    return Array.from(attention.subarray(start, start + heads), (byte) => byte / 255);
  }

  attention(token, layer, head = this.head) {
    const all = this.heads(token, layer);
    if (head === "mean") return all.reduce((a, b) => a + b) / all.length;
    return head === "largest" ? Math.max(...all) : all[Number(head) - 1];
  }

  coordinate(name, token, layer) {
    return this.model[name][(this.sentence.first + token) * (this.model.layers + 1) + layer];
  }

  value(token, layer) {
    return this.isAttention ? this.attention(token, layer) : this.coordinate(this.show, token, layer);
  }

  isBeyond(x) {
    return Math.abs(x) > this.scale + 1e-9;
  }

  // The tokens of a role, by number.
  tokensOf(role) {
    return this.sentence.roles.flatMap((one, i) => (one === role ? [i] : []));
  }

  // Words without a role, and without the first token, whose coordinates may be off any scale.
  get otherTokens() {
    return this.sentence.roles.flatMap((role, i) => (["neutral", "distractor"].includes(role) && i > 0 ? [i] : []));
  }

  // The word with the highest coordinate along k of a layer.
  highest(layer) {
    const words = this.sentence.roles.flatMap((role, i) => (role === "special" ? [] : [i]));
    return words.reduce((best, i) => (this.coordinate("k", i, layer) > this.coordinate("k", best, layer) ? i : best), words[0]);
  }

  // The cell {layer, token} of the informative word with the largest value.
  get strongest() {
    const token = this.tokensOf("informative")[0];
    const size = (layer) => Math.abs(this.value(token, layer));
    return { token, layer: this.layers.reduce((best, layer) => (size(layer) > size(best) ? layer : best)) };
  }

  // A cell, or the nearest that there is.
  within({ layer, token }) {
    return { layer: Math.min(this.to, Math.max(this.from, layer)), token: Math.min(this.n - 1, Math.max(0, token)) };
  }

  // How many values are beyond the scale, and which is farthest from 0.
  get extremes() {
    const values = this.layers.flatMap((layer) => this.sentence.tokens.map((_, token) => this.value(token, layer)));
    const farthest = values.reduce((most, x) => (Math.abs(x) > Math.abs(most) ? x : most), 0);
    return { all: values.length, beyond: values.filter((x) => this.isBeyond(x)).length, farthest };
  }
}
