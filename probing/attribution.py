"""Which words does the prediction depend on? Three measures of the model's output.

Occlusion hides one word at a time; a swap replaces a word by one of the opposite sentiment;
gradient x input measures the slope. Attention cannot say what the output depends on; these can.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probing.arrays import FloatArray, as_array
from probing.sentences import bare
from probing.states.limits import check_finite, check_lengths, check_padding
from probing.states.recording import evaluating, inputs_for, recorded
from probing.states.tokens import Tokens, tokenise

BATCH = 512


def label_logits(model: Any, tokenizer: Any, texts: Sequence[str]) -> FloatArray:
    """The logits of a classifier, shape (texts, n_labels); each distinct text is run once."""
    distinct = sorted(set(texts), key=lambda text: (len(text.split()), text))
    values: dict[str, FloatArray] = {}
    with recorded(model):
        for first in range(0, len(distinct), BATCH):
            batch = distinct[first : first + BATCH]
            tokens = tokenise(tokenizer, {"text": batch})
            check_lengths(model, tokens, batch)
            check_padding(model, tokens)
            logits = as_array(model(**inputs_for(model, tokens.padded().inputs)).logits)
            check_finite("the classifier", logits, tokens, batch)
            values |= zip(batch, logits, strict=True)
    return np.array([values[text] for text in texts])


def log_odds_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit of each text's label against those of all others together, shape (texts,).

    Of two labels it is the difference of the logits, whose sign depends on the label.
    """
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return logits.gather(1, labels[:, None])[:, 0] - others.logsumexp(dim=1)


def occlusion_changes(
    model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]]
) -> list[FloatArray]:
    """Changes of the log-odds of the predicted label when a word is hidden: per sentence, shape
    (words,).

    A hidden word becomes [UNK], or what ``hiding_token`` says. Punctuation behind a word stays.
    """
    hidden = hiding_token(model, tokenizer)
    texts = [
        # A sentence of one word that is left out: a model needs some token.
        " ".join(filter(None, replaced(row["words"], j, hidden))) or "."
        for row in rows
        for j in range(len(row["words"]))
    ]
    lengths = [len(row["words"]) for row in rows]
    original = torch.from_numpy(label_logits(model, tokenizer, [row["text"] for row in rows]))
    hidden_logits = torch.from_numpy(label_logits(model, tokenizer, texts))
    labels, repeats = original.argmax(dim=1), torch.tensor(lengths)
    before = log_odds_of(original, labels).repeat_interleave(repeats)
    after = log_odds_of(hidden_logits, labels.repeat_interleave(repeats))
    return np.split(as_array(after - before), np.cumsum(lengths)[:-1])


def hiding_token(model: Any, tokenizer: Any) -> str:
    """The token that stands for a hidden word: [UNK], else [MASK]; else nothing, it is left out.

    Many decoders have neither token, or the padding token is their [UNK]: a classifier of theirs
    would read the sentence at the word before.

    >>> hiding_token(model, tokenizer)
    '[UNK]'
    """
    padding = model.config.get_text_config().pad_token_id
    tokens = {tokenizer.unk_token: tokenizer.unk_token_id}
    tokens |= {tokenizer.mask_token: tokenizer.mask_token_id}
    return next((str(name) for name, i in tokens.items() if i not in (None, padding)), "")


def replaced(words: Sequence[str], j: int, new: str) -> list[str]:
    """The words with another one at place j, which keeps the punctuation behind it.

    >>> replaced(["Nice.", "my", "dog"], 0, "Good")
    ['Good.', 'my', 'dog']
    """
    mark = words[j][len(bare(words[j])) :]
    return [*words[:j], new + mark, *words[j + 1 :]]


def occlusion_shares(model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]]) -> FloatArray:
    """Share of the informative word in the sum of |occlusion changes|, shape (sentences,)."""
    changes = [np.abs(x) for x in occlusion_changes(model, tokenizer, rows)]
    informative = np.array([x[row["location"]] for x, row in zip(changes, rows, strict=True)])
    starts = np.cumsum([0, *map(len, changes[:-1])])
    return informative / np.maximum(np.add.reduceat(np.concatenate(changes), starts), 1e-12)


def swap_flips(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    opposites: dict[str, list[str]],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Shares of predictions that change when a word is replaced by one of its ``opposites``.

    ``swap_informative`` replaces the informative word, ``swap_distractor`` the distractor (nan if
    no sentence has one, or none with an opposite). ``opposites`` are words without punctuation; a
    mark behind a word stays.
    """
    before = label_logits(model, tokenizer, [row["text"] for row in rows]).argmax(axis=1)

    def flips(places: list[tuple[int, int]]) -> float:
        places = [(i, j) for i, j in places if opposites.get(bare(rows[i]["words"][j]))]
        if not places:
            return float("nan")
        texts = []
        for i, j in places:
            words = rows[i]["words"]
            new = str(rng.choice(opposites[bare(words[j])]))
            texts.append(" ".join(replaced(words, j, new)))
        after = label_logits(model, tokenizer, texts).argmax(axis=1)
        return float(np.mean(after != before[[i for i, _ in places]]))

    distractors = [
        (i, j)
        for i, row in enumerate(rows)
        for j, role in enumerate(row["roles"])
        if role == "distractor"
    ]
    informative = [(i, row["location"]) for i, row in enumerate(rows)]
    return {"swap_informative": flips(informative), "swap_distractor": flips(distractors)}


def opposites_in(split: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """The words that may replace each word, all without punctuation.

    An informative word is replaced by informative words of other labels, a distractor by any other
    distractor.
    """
    labels: dict[str, int] = {}
    distractors: set[str] = set()
    for row in split:
        labels[bare(row["words"][row["location"]])] = row["label"]
        roles = zip(row["words"], row["roles"], strict=True)
        distractors |= {bare(word) for word, role in roles if role == "distractor"}
    # A word that is both, as "nice" is, counts as informative.
    return {word: sorted(distractors - {word}) for word in distractors} | {
        word: sorted(new for new in labels if labels[new] != labels[word]) for word in labels
    }


def dependence(model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean occlusion and gradient shares of the informative word, and ``swap_flips``."""
    return {
        "occlusion_share": float(occlusion_shares(model, tokenizer, rows).mean()),
        "gradient_share": float(gradient_shares(model, tokenizer, rows).mean()),
        **swap_flips(model, tokenizer, rows, opposites_in(rows), np.random.default_rng(0)),
    }


def gradient_shares(model: Any, tokenizer: Any, rows: Sequence[dict[str, Any]]) -> FloatArray:
    """Share of the informative word in the sum of |gradient x input|, shape (sentences,)."""
    shares = []
    embedded: list[Tensor] = []

    def keep(module: Any, args: Any, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[-1]

    # By a hook: a decoder that is given embeddings instead of ids does not see the padding.
    with evaluating(model), model.get_input_embeddings().register_forward_hook(keep):
        for first in range(0, len(rows), BATCH):
            batch = rows[first : first + BATCH]
            tokens = tokenise(
                tokenizer, {name: [row[name] for row in batch] for name in ("text", "span")}
            )
            padded = tokens.padded()
            logits = model(**inputs_for(model, padded.inputs)).logits
            states = embedded.pop()
            odds = log_odds_of(logits, logits.argmax(dim=1))
            (gradient,) = torch.autograd.grad(odds.sum(), states)
            effect = padded.ragged((gradient * states).sum(-1).abs())
            shares.append(_share(as_array(effect), tokens))
    return np.concatenate(shares)


def _share(effect: FloatArray, tokens: Tokens) -> FloatArray:
    """The share of the informative word in effects (n_tokens,), one per sentence."""
    starts = tokens.offsets[:-1]
    total = np.add.reduceat(effect * ~tokens.special, starts)
    return np.add.reduceat(effect * tokens.informative, starts) / np.maximum(total, 1e-12)
