"use strict";
// The trained Transformer, as studies/pages/live.py writes it down: a BERT of one layer and one head,
// read at [CLS]. tests/test_live.py compares it with torch.
//
// Only [CLS] is read, and it attends once. So the attention needs no keys and values of tokens:
//   score_t = q . (W_K x_t + b_K) = (W_K^T q) . x_t + const        one direction says where to look
//   context = W_V (sum_t a_t x_t) + b_V                            one map says what is read there

// ---- numbers from text

// Half precision: 1 sign, 5 exponent and 10 fraction bits.
function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// The tensors by name, cut from one array of numbers.
function tensorsOf(numbers, shapes) {
  const tensors = {};
  let from = 0;
  for (const [name, shape] of Object.entries(shapes)) {
    const size = shape.reduce((product, n) => product * n, 1);
    tensors[name] = numbers.subarray(from, from + size);
    from += size;
  }
  return tensors;
}

// ---- words

// Words and punctuation marks with their places, as data_gen/tokenizer.py splits texts.
function splitWords(text, special) {
  const quoted = special.map((token) => token.replace(/[[\]]/g, "\\$&")).join("|");
  const mark = "!-\\/:-@\\[-`{-~\\p{P}";
  const pieces = new RegExp(`${quoted}|[${mark}]|[^\\p{White_Space}${mark}]+`, "gu");
  return [...text.matchAll(pieces)].map((found) => ({ word: found[0], start: found.index, end: found.index + found[0].length }));
}

// ---- layers

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

// W x + b for the rows of W (outputs, inputs).
function affine(weight, bias, x) {
  return Array.from(bias, (b, row) => {
    let sum = b;
    for (let i = 0, at = row * x.length; i < x.length; i++) sum += weight[at + i] * x[i];
    return sum;
  });
}

// W^T y.
function transposed(weight, y, size) {
  const sums = new Array(size).fill(0);
  y.forEach((value, row) => {
    for (let i = 0; i < size; i++) sums[i] += weight[row * size + i] * value;
  });
  return sums;
}

function normalised(x, gain, bias, epsilon) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, i) => ((value - mean) / Math.sqrt(variance + epsilon)) * gain[i] + bias[i]);
}

const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));

function softmaxOf(scores) {
  const most = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - most));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

// ---- edits of a token's state along an axis {direction, zero, unit, mean}, as in
// probing/circuits/interventions.py at the amount 1

const EDITS = {
  erase: (axis, along) => axis.mean - along, // to the mean of all
  reflect: (axis, along) => 2 * (axis.zero - along), // at the middle of the two labels
  steer: (axis) => 2 * axis.unit, // by the distance between the labels, towards the positive one
};

function edited(state, axis, edit, amount) {
  const step = amount * EDITS[edit](axis, dot(state, axis.direction));
  return state.map((x, i) => x + step * axis.direction[i]);
}

// ---- the model

// The model of live.py's values: read(text, {step, edits}) gives tokens (as the model reads them),
// words (as they are written), attention of [CLS], coordinates k and v of the states that it reads, and
// the logit (positive minus negative). step is one of steps, by default the last; edits are
// {edit: "erase" | "reflect" | "steer", along: "k" | "v", token: its number, amount: 1 by default}.
function makeTransformer(data) {
  const ids = new Map(data.vocabulary.map((word, id) => [word, id]));
  const { cls_token: cls, sep_token: sep, unk_token: unk } = data.special;
  const steps = data.curve.step;
  const decoded = new Map();

  function weightsAt(step) {
    const number = steps.indexOf(step);
    if (number < 0) throw new RangeError(`no snapshot at step ${step}; there are ${steps.join(", ")}`);
    if (!decoded.has(step)) {
      const half = data.snapshots[number]; // none of the last: the model itself
      const numbers = half
        ? Float32Array.from(new Uint16Array(bytesOf(half).buffer), fromHalf)
        : new Float32Array(bytesOf(data.weights).buffer);
      decoded.set(step, tensorsOf(numbers, data.shapes));
    }
    return decoded.get(step);
  }

  function tokenise(text) {
    const pieces = splitWords(text, Object.values(data.special));
    const kept = pieces.slice(0, data.most_tokens - 2);
    const words = [{ word: cls }, ...kept, { word: sep }];
    return { words, dropped: pieces.length - kept.length };
  }

  function embedded(w, id, place) {
    const size = w.embedded_bias.length;
    const sum = Array.from({ length: size }, (_, i) => w.word[id * size + i] + w.position[place * size + i] + w.type[i]);
    return normalised(sum, w.embedded_weight, w.embedded_bias, data.epsilon);
  }

  // What [CLS] makes of the states: its attention to them, and the logits.
  function forward(w, states) {
    const first = states[0];
    const query = affine(w.query_weight, w.query_bias, first);
    const key = transposed(w.key_weight, query, first.length);
    const offset = dot(query, w.key_bias);
    const attention = softmaxOf(states.map((x) => (dot(key, x) + offset) / Math.sqrt(first.length)));
    const read = first.map((_, i) => states.reduce((sum, x, t) => sum + attention[t] * x[i], 0));
    const added = (x, y) => x.map((value, i) => value + y[i]);
    const context = affine(w.mixed_weight, w.mixed_bias, affine(w.value_weight, w.value_bias, read));
    const attended = normalised(added(context, first), w.attended_weight, w.attended_bias, data.epsilon);
    const wide = affine(w.wide_weight, w.wide_bias, attended).map(gelu);
    const narrow = affine(w.narrow_weight, w.narrow_bias, wide);
    const last = normalised(added(narrow, attended), w.final_weight, w.final_bias, data.epsilon);
    const pooled = affine(w.pooler_weight, w.pooler_bias, last).map(Math.tanh);
    return { attention, logits: affine(w.classifier_weight, w.classifier_bias, pooled) };
  }

  const coordinate = (axis) => (state) => (dot(state, axis.direction) - axis.zero) / axis.unit;

  function read(text, { step = steps[steps.length - 1], edits = [] } = {}) {
    const w = weightsAt(step);
    const { words, dropped } = tokenise(String(text));
    const known = words.map(({ word }) => ids.has(word));
    const states = words.map(({ word }, place) => embedded(w, ids.get(word) ?? ids.get(unk), place));
    for (const { edit, along, token, amount = 1 } of edits) {
      const axis = data.axes[along];
      if (!axis || !EDITS[edit] || !states[token]) throw new RangeError(`no such edit: ${edit} along ${along} at token ${token}`);
      states[token] = edited(states[token], axis, edit, amount);
    }
    const { attention, logits } = forward(w, states);
    const logit = logits[1] - logits[0];
    return {
      tokens: words.map(({ word }, i) => (known[i] ? word : unk)),
      words: words.map(({ word }) => word),
      spans: words.map(({ start, end }) => (start === undefined ? null : [start, end])),
      unknown: known.map((is) => !is),
      attention,
      k: states.map(coordinate(data.axes.k)),
      v: states.map(coordinate(data.axes.v)),
      logit,
      label: data.labels[Number(logit > 0)],
      probability: 1 / (1 + Math.exp(-Math.abs(logit))), // of this label
      dropped, // words beyond the model's last position, which it does not read
    };
  }

  return { read, steps };
}
