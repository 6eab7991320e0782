"use strict";
// The edits of step 4 as text for the address: "erase-v:1,steer-v:-0.5". Whatever stands there, what
// is read has the names and ranges of the sliders.

const NO_EDITS = { "erase-v": 0, "reflect-v": 0, "steer-v": 0, "erase-k": 0 };

// The number in a text if it lies in a range, otherwise null.
function numberIn(text, low, high) {
  const number = text.trim() === "" ? NaN : Number(text);
  return number >= low && number <= high ? number : null;
}

// The number of a token in a text, or null.
function tokenIn(text) {
  const number = numberIn(text, 0, Infinity);
  return Number.isInteger(number) ? number : null;
}

function textOfEdits(edits) {
  return Object.entries(edits).filter(([, amount]) => amount !== 0).map((pair) => pair.join(":")).join(",") || "none";
}

function editsOfText(text) {
  const edits = { ...NO_EDITS };
  for (const part of text.split(",")) {
    const [name, amount = ""] = part.split(":");
    const value = numberIn(amount, name === "steer-v" ? -2 : 0, name === "steer-v" ? 2 : 1);
    if (Object.hasOwn(NO_EDITS, name) && value !== null) edits[name] = value;
  }
  return edits;
}

// The edits of a token as slr.read takes them.
function editList(edits, token) {
  return Object.entries(edits).filter(([, amount]) => amount !== 0).map(([name, amount]) => {
    const [edit, along] = name.split("-");
    return { edit, along, token, amount };
  });
}
