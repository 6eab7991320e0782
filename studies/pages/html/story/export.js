"use strict";
// The numbers of a sentence, to take along.

// One row per token; every row says which model and which edits it is of.
function asCsv(reading, step, edits) {
  const quoted = (x) => (/[",\n\r]/.test(x) ? `"${x.replaceAll('"', '""')}"` : x);
  const said = edits.map(({ edit, along, token, amount }) => `${edit} ${along} at token ${token} by ${amount}`).join("; ");
  const head = "token,word,read_as,attention,k,v,logit,label,step,edits";
  const rows = reading.words.map((word, i) =>
    [i, word, reading.tokens[i], reading.attention[i], reading.k[i], reading.v[i], reading.logit, reading.label, step, said]
      .map((value) => quoted(String(value))).join(","));
  return [head, ...rows].join("\n") + "\n";
}

function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = htmlElement("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
