"""Does a probe still find the word in a longer text? Accuracy against length, beside the theory.

Probes are fitted to short training sentences of `sentiment-wide` and scored on `test` and on
`ood_long_2` to `ood_long_16`: sentences as in `test` with neutral sentences before or behind them.
In theory pooling fails as the length grows, and a sharp attention does not, if the other tokens are
like those of training. The neutral sentences are not: so probes are also fitted to training
sentences with two of them (`train_long_2`), after which only the length is new.

Decided before any number was seen: each probe is fitted at the layer that cross-validation over the
training split chose for it in `probes-wide`, with a penalty chosen in the same way (`max`, which is
not there, at the reader's layer; heads keep the penalty of short sentences); the word lists,
lengths and predictions; and that texts with fillers before and behind count equally. No longer
text is used to choose anything. After first runs of MiniLM, in which the reader did not find the
word, the second fit, the value probe (told the place) and AUROC were added; the predictions on the
second fit were written before it was run.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from studies.bounds import Jobs, Pairs, Seed, Within, check_workers
from studies.findings import Finding, of_row
from studies.practice import probed
from studies.practice.probed import Probed
from studies.practice.probes import true_labels
from studies.rendering import interval, intervals, number, pivoted
from studies.study import Need, Result, Said, Tables, counter, study
from studies.study import Options as StudyOptions
from studies.subject import MODEL_NAMES

FILLERS = (0, 2, 4, 8, 16)  # neutral sentences
SIDES = ("before", "behind")
PROBES = ("mean", "summary", "head", "max", "reader", "value")
TRAINED = {"short": 0, "with fillers": 2}  # what probes are fitted to: number of fillers
FITTED = {"short": "short sentences", "with fillers": "sentences with 2 fillers"}
SHARP = ("max", "reader")  # a hard choice of one token
HEADS = ("head", "max")
FEWER = 384  # sentences with fillers to fit to: they are six times as long
AT_ONCE = 32  # texts whose states are in memory
# The theory at the paper's setting, and lengths of sequences far beyond it.
THEORY: dict[str, Any] = {"d": 400, "L": 10, "gamma": 0.5**0.5}
LENGTHS = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
MODERATE = 0.3  # lam of a softmax that is not sharp
MOST_LOST = 0.1  # accuracy that a sharp attention may lose


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    output: Path = Path("results/length")
    """Folder for the tables and the figure."""
    models: tuple[Literal["minilm", "smollm2"], ...] = ("minilm", "smollm2")
    """The models; the layers of their probes are read from folders next to the output."""
    train: Pairs = 960
    """Number of training sentences, equally many per word."""
    sentences: Pairs = 256
    """Number of texts per length, equally many per word, and per side of the fillers."""
    samples: Annotated[int, Within(2, 10**7)] = 4000
    """Number of sequences of the theory."""
    seed: Seed = 0
    """Seed of the probes and of the theory."""
    jobs: Jobs = os.cpu_count() or 1
    """Number of processes that share the fits; results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_workers(self.jobs)
        if not self.models:
            raise ValueError("--models needs at least one model")


def subjects(options: Options) -> dict[str, Probed]:
    """The studies that chose the layers, by model."""
    studies = (each for each in probed.PROBED.values() if each.options.data == probed.WIDE)
    wide = {each.options.model: each for each in studies}
    return {model: wide[model] for model in options.models}


def needs(options: Options) -> list[Need]:
    results = options.output.parent
    return [(each.study, each.under(results)) for each in subjects(options).values()]


def run(options: Options) -> Result:
    from data_gen import build_dataset
    from studies.practice.figures.length import plot_length

    dataset = build_dataset(probed.WIDE, extended=True)
    parts = []
    for name, each in subjects(options).items():
        table = Tables(options.output.parent / each.study.folder)["probes"]
        model, tokenizer = each.options.load()
        texts = texts_of(model, tokenizer, dataset, layers_of(table), options)
        parts.append(texts.assign(model=name))
    texts = pd.concat(parts, ignore_index=True)
    tables = {"lengths": by_length(texts), "losses": losses(texts), "theory": theory(options)}
    return Result(tables, {"length": plot_length(tables["lengths"], tables["theory"])})


# ---- models


def layers_of(table: pd.DataFrame) -> dict[str, int]:
    """The layer of each probe, by cross-validation; of one that is not there the reader's."""
    from probing.probes.by_layer import chosen_layers

    chosen = chosen_layers(true_labels(table)).groupby("probe")["layer"].first()
    return {name: int(chosen.get(name, chosen["reader"])) for name in PROBES}


def texts_of(
    model: Any, tokenizer: Any, dataset: Any, layers: dict[str, int], options: Options
) -> pd.DataFrame:
    """One row per text and probe: is it right, does it look at the word, and with which mass."""
    fitted = fits(model, tokenizer, dataset, layers, options)
    chunks = [chunk for fillers in FILLERS for chunk in drawn(dataset, fillers, options.sentences)]
    parts = []
    with counter("reading longer texts", "chunk") as progress:
        for done, chunk in enumerate(chunks, 1):
            states = states_of(model, tokenizer, chunk.rows, sorted(set(layers.values())))
            for (trained, name), probe in fitted.items():
                row = {"fitted": trained, "probe": name, "layer": layers[name]}
                row |= {"fillers": chunk.fillers, "side": chunk.side}
                position = position_of(name)
                X, pooled = states.at(layers[name], position), position != "tokens"
                parts.append(judged(probe, X, states.tokens, pooled=pooled).assign(**row))
            progress(done, len(chunks))
    return pd.concat(parts, ignore_index=True)


def fits(
    model: Any, tokenizer: Any, dataset: Any, layers: dict[str, int], options: Options
) -> dict[tuple[str, str], Any]:
    """The probes, fitted to short sentences and to longer ones, by (fitted, probe).

    The heads take long to choose their penalty: on longer sentences they have that of short ones.
    """
    from probing.probes.by_layer import probe_layer
    from probing.progress import in_processes
    from probing.sentences import draw_by_word

    fitted: dict[tuple[str, str], Any] = {}
    for trained, fillers in TRAINED.items():
        split = dataset[f"train_long_{fillers}" if fillers else "train"]
        n = min(options.train, FEWER) if fillers else options.train
        rows = split.select(draw_by_word(split, n))
        states = states_of(model, tokenizer, rows, sorted(set(layers.values())))

        def arguments(name: str, states: Any = states, fillers: int = fillers) -> Iterable[Any]:
            own = (states.at(layers[name], position_of(name)), states.tokens)
            C = fitted["short", name].C_ if fillers and name in HEADS else None
            return name, own, {}, C, True, options.seed

        # The heads take longest, so they come first.
        names = sorted(layers, key=lambda name: name not in HEADS)
        with counter(f"fitting: {trained}", "probe") as progress:
            share: dict[str, Any] = {"jobs": options.jobs, "progress": progress}
            found = in_processes(probe_layer, arguments, names, **share)
        fitted.update({(trained, name): found[name].estimator for name in layers})
    return fitted


def position_of(probe: str) -> str:
    """The states that a probe reads."""
    from probing.probes.splits import POOLED

    return POOLED.get(probe, "tokens")


def states_of(model: Any, tokenizer: Any, rows: Any, layers: Sequence[int]) -> Any:
    """The states that probes read, without those of special tokens."""
    from probing.states.extraction import extract

    positions = tuple(dict.fromkeys(map(position_of, PROBES)))
    return extract(model, tokenizer, rows, positions=positions, layers=layers).words_only()


@dataclass(frozen=True)
class Chunk:
    """Texts with so many fillers on one side."""

    rows: Any
    fillers: int
    side: str


def drawn(dataset: Any, fillers: int, sentences: int) -> Iterator[Chunk]:
    """The texts with so many fillers, equally many per word and per side, few at a time."""
    from probing.sentences import draw_by_word

    split = dataset[f"ood_long_{fillers}" if fillers else "test"]
    for side in SIDES if fillers else ("none",):
        part = split
        if fillers:
            patterns = split["pattern"][:]
            part = split.select([i for i, name in enumerate(patterns) if name.endswith(side)])
        part = part.select(draw_by_word(part, sentences // 2 if fillers else sentences))
        for first in range(0, len(part), AT_ONCE):
            rows = part.select(range(first, min(first + AT_ONCE, len(part))))
            yield Chunk(rows, fillers, side)


def judged(fitted: Any, X: Any, tokens: Any, *, pooled: bool) -> pd.DataFrame:
    """One row per text: its word, label and tokens; what the probe says, and where it looks.

    ``located`` says whether the token that it looks at most is informative, ``mass`` is its
    attention on informative tokens; both are missing for probes that do not attend.
    """
    from probing.probes.location import informative_ranks

    correct = fitted.predict(X) == tokens.labels if pooled else fitted.correct(X, tokens)
    columns = {"word": tokens.words, "tokens": tokens.lengths, "correct": correct.astype(float)}
    columns |= {"label": tokens.labels, "located": np.nan, "mass": np.nan}
    if pooled:
        columns["logit"] = fitted.decision_function(X)
    elif hasattr(fitted, "location_"):
        columns["logit"] = fitted.decision_function(X, tokens)
        columns["located"] = fitted.location_.correct(X, tokens).astype(float)
    else:
        columns["logit"] = fitted.decision_function(X, tokens)
        weights = fitted.attention(X, tokens)
        columns["located"] = (informative_ranks(weights, tokens) == 1).astype(float)
        on_word = np.where(tokens.informative, weights, 0)
        columns["mass"] = np.add.reduceat(on_word, tokens.offsets[:-1])
    return pd.DataFrame(columns)


# ---- tables


def by_length(texts: pd.DataFrame) -> pd.DataFrame:
    """Accuracy, with its interval over words, by model, probe and number of fillers.

    ``side`` is "both", "before" or "behind"; texts without fillers have "both" alone.
    """
    from probing.ranking import auroc
    from probing.statistics import accuracy_columns

    rows = []
    for side in ("both", *SIDES):
        part = texts if side == "both" else texts[texts["side"] == side]
        keys = ["model", "fitted", "probe", "layer", "fillers"]
        for key, group in part.groupby(keys, sort=False):
            row = dict(zip(keys, key, strict=True)) | {"side": side, "texts": len(group)}
            row |= accuracy_columns(group["correct"], group["word"])
            # Unlike accuracy it is not lowered if all logits shift, as they may in longer texts.
            row["auroc"] = auroc(group["logit"], group["label"] == 1)
            rows.append(row | group[["tokens", "located", "mass"]].mean().to_dict())
    return pd.DataFrame(rows)


def losses(texts: pd.DataFrame) -> pd.DataFrame:
    """Accuracy lost from the length of training to the longest, and what `mean` loses more.

    Both are means over words, which are the same at all lengths: their 95% intervals are Student's.
    """
    rows = []
    for (model, trained), part in texts.groupby(["model", "fitted"], sort=False):
        by_word = part.pivot_table("correct", ["probe", "word"], "fillers")
        lost = (by_word[TRAINED[trained]] - by_word[FILLERS[-1]]).unstack("probe")
        for probe in [name for name in PROBES if name in lost]:
            row = {"model": model, "fitted": trained, "probe": probe}
            row |= student("lost", lost[probe])
            rows.append(row | student("mean_more", lost["mean"] - lost[probe]))
    return pd.DataFrame(rows)


def student(name: str, values: pd.Series) -> dict[str, Any]:
    """A mean over words and the ends of its 95% interval, as columns.

    Where all words agree, the interval has the width of an exact one for a share of 0 words.
    """
    from scipy.special import stdtrit

    mean, n = float(values.mean()), len(values)
    half = float(stdtrit(n - 1, 0.975) * values.std() / n**0.5) or 1 - 0.025 ** (1 / n)
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def theory(options: Options) -> pd.DataFrame:
    """P(prediction and label have the same sign) against the length of sequences.

    Attentions are tuned at the paper's length; ``erf, best at L`` is tuned at each length.
    """
    from slr.attentions.length import Setting, sign_agreement, tuned
    from slr.task import Task

    task, rng = Task(**THEORY), np.random.default_rng(options.seed)
    settings = {
        "uniform": tuned(task, "uniform", rng),
        "erf": tuned(task, "erf", rng),
        "softmax, moderate": Setting("softmax", MODERATE),
        "softmax": tuned(task, "softmax", rng),
    }
    rows = []
    for name, setting in settings.items():
        curve = sign_agreement(task, setting, LENGTHS, options.samples, rng)
        rows += [(name, setting.lam, L, *estimate(x)) for L, x in zip(LENGTHS, curve, strict=True)]
    for L in LENGTHS:
        setting = tuned(replace(task, L=L), "erf", rng)
        (found,) = sign_agreement(task, setting, [L], options.samples, rng)
        rows.append(("erf, best at L", setting.lam, L, *estimate(found)))
    return pd.DataFrame(rows, columns=["attention", "lam", "L", "agreement", "stderr"])


def estimate(found: Any) -> tuple[float, float]:
    return found.value, found.stderr


# ---- what it says


def findings(tables: Tables) -> Iterator[Finding]:
    """What the theory says of pooling (uniform attention) and of a hard or sharp choice."""
    losses = tables["losses"]
    cases = losses.groupby(["model", "fitted"]).ngroups
    fits = f"in {cases} cases (MiniLM and SmolLM2, fitted to short texts or to longer ones)"
    mean = losses[losses["probe"] == "mean"]
    least = mean.loc[mean["lost_low"].idxmin()]
    yield Finding(
        text="From the length of training to the longest texts a probe of the mean of tokens loses "
        f"an accuracy of {{}} where it loses least, {fits}.",
        **of_row(least, "lost", "lost"),
        required="more than 0",
        holds=bool((mean["lost_low"] >= 0).all()),
    )
    others = losses[losses["probe"].isin(["head", *SHARP])]
    worst = others.loc[others["mean_more_low"].idxmin()]
    yield Finding(
        text="On longer texts the mean of tokens loses more accuracy than an attention that "
        "chooses (head, max, locate-and-read) by a difference of {} in the worst of "
        f"{len(others)} comparisons: {named(worst)}.",
        **of_row(worst, "mean_more", "mean_more"),
        required="more than 0",
        holds=bool((others["mean_more_low"] >= 0).all()),
        why="fitted to short texts, k ranks the new words of longer ones above the word that "
        "decides, and the head's attention leaks to them",
    )
    sharp = losses[losses["probe"].isin(SHARP)]
    most = sharp.loc[sharp["lost_high"].idxmax()]
    yield Finding(
        text="On longer texts a probe that chooses one token (max, locate-and-read) loses an "
        f"accuracy of {{}} in the worst of {len(sharp)} cases: {named(most)}.",
        **of_row(most, "lost", "lost"),
        required=f"at most {MOST_LOST:g}",
        holds=bool((sharp["lost_high"] <= MOST_LOST).all()),
        why="a direction fitted to the words of short texts does not find the word among new ones",
    )


def named(row: pd.Series) -> str:
    model, probe = MODEL_NAMES.get(row["model"], row["model"]), row["probe"]
    return f"{probe} in {model}, fitted to {FITTED[row['fitted']]}"


def says(tables: Tables) -> Said:
    lengths, lost, curves = (tables[name] for name in ("lengths", "losses", "theory"))
    lengths = lengths.assign(model=lengths["model"].replace(MODEL_NAMES))
    lost = lost.assign(model=lost["model"].replace(MODEL_NAMES))
    both = lengths[lengths["side"] == "both"]
    texts, tokens = int(both["texts"].max()), both.groupby("fillers")["tokens"].mean()
    shown = pivoted(both, intervals(both), ["model", "fitted", "probe", "layer"], "fillers")
    wide = pivoted(curves, [number(x, 3) for x in curves["agreement"]], "attention", "L")
    return [
        *(verdict(str(model), rows, lost) for model, rows in both.groupby("model", sort=False)),
        f"Accuracy on texts with 0 to {FILLERS[-1]} neutral sentences (fillers), with 95% "
        f"intervals over words, {texts} texts per length. Probes are fitted to short sentences, or "
        f"to sentences with two fillers ({FEWER} of them, where `head` and `max` keep the penalty "
        "of short ones), each at the layer that cross-validation over the training split chose "
        "(`max` at the reader's); `value` is told the place.",
        shown.rename(columns=lambda n: f"{n} ({tokens[n]:.0f} tokens)"),
        f"{FILLERS[-1]} fillers, before or behind the sentence, beside none. `auroc` does not "
        "depend on a threshold: where it is high and the accuracy is not, logits have shifted. "
        "Where the probe looks: `located`, the share of texts whose highest token is one of the "
        "word; `mass`, its attention on the word.",
        sides(lengths),
        "The theory: share of sequences whose prediction has the sign of the label, without label "
        f"noise, at k = k*, v = v*, d = {THEORY['d']} and gamma^2 = {THEORY['gamma'] ** 2:g}, "
        f"tuned at L = {THEORY['L']} and used at L (standard errors up to "
        f"{curves['stderr'].max():.4f}); the moderate softmax has lambda = {MODERATE:g}.",
        wide.rename(columns=lambda L: f"L = {L}"),
    ]


def verdict(model: str, rows: pd.DataFrame, lost: pd.DataFrame) -> str:
    """The sentences that the figure supports: what the mean loses, beside the reader."""
    sentences = []
    for trained, first in TRAINED.items():
        at = rows[rows["fitted"] == trained].set_index(["probe", "fillers"])
        ends = [at.loc[("mean", n), "tokens"] for n in (first, FILLERS[-1])]

        def change(probe: str, at: pd.DataFrame = at, first: int = first) -> str:
            return " to ".join(number(at.loc[(probe, n), "accuracy"]) for n in (first, FILLERS[-1]))

        is_reader = (lost["probe"] == "reader") & (lost["fitted"] == trained)
        row = lost[is_reader & (lost["model"] == model)].iloc[0]
        kind = "not distinguishably more or less than"
        if row["mean_more_low"] > 0:
            kind = "more than"
        elif row["mean_more_high"] < 0:
            kind = "less than"
        more = interval(row["mean_more"], row["mean_more_low"], row["mean_more_high"])
        found = " to ".join(number(at.loc[("reader", n), "located"]) for n in (first, FILLERS[-1]))
        others = [name for name in PROBES if name in at.index and name not in ("mean", "reader")]
        sentences.append(
            f"Fitted to {FITTED[trained]}, from {ends[0]:.0f} to {ends[1]:.0f} tokens, a probe of "
            f"the mean goes from {change('mean')}, and locate-and-read from {change('reader')}: "
            f"pooling loses {kind} a hard choice of one token (difference {more}), which finds the "
            f"word in a share of {found} of the texts. "
            + ", ".join(f"`{name}`: {change(name)}" for name in others)
            + "."
        )
    return f"**{model}.** {' '.join(sentences)}"


def sides(lengths: pd.DataFrame) -> pd.DataFrame:
    """No fillers and the most of them on either side: accuracy, AUROC, location and mass."""
    last = lengths["fillers"] == FILLERS[-1]
    ends = lengths[(lengths["fillers"] == 0) | (last & (lengths["side"] != "both"))]
    places = [f"{n} {side}" if n else "0" for n, side in ends[["fillers", "side"]].to_numpy()]
    parts = {}
    for name in ("accuracy", "auroc", "located", "mass"):
        texts = [number(x) for x in ends[name]]
        rows = ends.assign(place=places)
        parts[name] = pivoted(rows, texts, ["model", "fitted", "probe"], "place")
    table = pd.concat(parts, axis=1)
    table.columns = [f"{name}, {place}" for name, place in table.columns]
    return table


STUDY = study(
    __name__,
    "Longer texts",
    "python scripts/length.py",
    length="Accuracy against the number of tokens of texts with neutral sentences before or behind "
    "the one that decides, for probes fitted to short sentences (a, b) and to sentences with two "
    "neutral ones (d, e); dotted: the length of training. Bands are 95% intervals over words. (c) "
    "The theory: share of sequences whose prediction has the sign of the label against their "
    "length L, for attentions tuned at L = 10 (dashed: erf, tuned at each L). (f) Share of texts "
    "in which the reader finds the word.",
)
