"use strict";
// Which word is read, which other one might be, and the sentences in which they are swapped.

const strongest = (reading) => reading.attention.indexOf(Math.max(...reading.attention));

// The slots of the grammar that hold a word.
function menuOf(word, slots) {
  return slots.filter((slot) => slot.words.includes(word));
}

// The text with the piece at [start, end] replaced; with "" the space before it goes, too.
function replaced(text, [start, end], word) {
  const from = word === "" && text[start - 1] === " " ? start - 1 : start;
  return text.slice(0, from) + word + text.slice(end);
}

function makeSwaps({ slots, vocabulary }) {
  const known = new Set(vocabulary);
  const labels = new Map(slots.flatMap((slot) => Object.entries(slot.labels)));

  // The word of the same menus that stands for the other label; without labels, the first other one.
  function otherWord(word) {
    const choices = menuOf(word, slots).flatMap((slot) => slot.words).filter((each) => each !== word && known.has(each));
    return choices.find((each) => labels.has(word) && labels.get(each) === 1 - labels.get(word)) ?? choices[0] ?? null;
  }

  // The text of a reading with word number i swapped; null where the grammar has no other word.
  function swapped(reading, i) {
    const other = reading.spans[i] ? otherWord(reading.words[i]) : null;
    return other === null ? null : replaced(reading.text, reading.spans[i], other);
  }

  // The number of a word that is not read, with a sentiment if there is one; -1 if nothing can be
  // swapped, or if no word is read, so that any might be the one that matters.
  function unreadOf(reading) {
    if (!reading.spans[strongest(reading)]) return -1;
    const others = reading.words.map((_, i) => i).filter((i) => i !== strongest(reading) && swapped(reading, i) !== null);
    return others.find((i) => labels.has(reading.words[i])) ?? others[0] ?? -1;
  }

  // Whether a word decided labels in training.
  const decides = (word) => known.has(word) && labels.has(word);

  return { swapped, unreadOf, decides };
}
