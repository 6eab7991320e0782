"""Apply a probe that probe.py saved to new texts: which label, which score, which word?

Prints one line per text: the label, the score (the logit of the second label, or one logit per
label) and, for probes that choose among tokens, the word that they look at most and its weight. If
the file of texts has labels, accuracy, AUROC and the true-positive rate at 1% false positives
follow. The model must be the one that the probe was fitted to, to the last weight.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.storage.results import write_whole
from studies.subject import AUTO, Subject

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 40  # texts that are printed
WIDTH = 160  # columns of the table


@dataclass(frozen=True, kw_only=True)
class Options:
    probe: Path
    """Folder of a saved probe, such as results/probes/saved/reader."""
    text: tuple[str, ...] = ()
    """The texts, each in quotes."""
    data: Path | None = None
    """File of texts: .txt (one per line), or .csv or .jsonl with a column text (and label)."""
    model: str = AUTO
    """The model of the probe, if it is stored elsewhere now; auto: as probe.json names it."""
    device: str = AUTO
    """Where the model runs: cpu, cuda, cuda:1 or mps; auto: the first of cuda, mps, cpu."""
    device_map: str | None = None
    """auto: share a model that does not fit one device among all devices (by accelerate)."""
    output: Path | None = None
    """File for the table, .parquet or .csv; by default it is only printed."""

    def __post_init__(self) -> None:
        if bool(self.text) == (self.data is not None):
            raise ValueError("give texts, either by --text or by --data")
        if self.output is not None and self.output.suffix not in (".parquet", ".csv"):
            raise ValueError(f"--output must end in .parquet or .csv, not {self.output}")


def main(options: Options) -> None:
    if options.output is not None and options.output.exists():
        raise FileExistsError(f"{options.output} exists; choose another file")

    from data_gen import read_texts
    from probing.probes.saved.folder import load_probe

    saved = load_probe(options.probe)
    columns: dict[str, Any] = {"text": list(options.text)}
    if options.data is not None:
        columns = read_texts(options.data, located=saved.reads == "informative")
    texts, spans = columns["text"], columns.get("span")
    saved.check_texts(texts, spans)
    name = saved.origin.model if options.model == AUTO else options.model
    precision: Any = saved.origin.made_with.get("dtype", "float32")
    subject = Subject(
        model=name, dtype=precision, device=options.device, device_map=options.device_map
    )
    table = saved.apply(*subject.load(), texts, spans)
    if "label" in columns and "label" in table:
        table.insert(1, "truth", columns["label"])
    print(f"model: {name}; probe: {saved.probe}, layer {saved.layer}")
    print(shown(table))
    if "truth" in table:
        print(judged(table, saved.labels))
    if options.output is not None:
        write(table, options.output)
        print(f"written to {options.output}")


def shown(table: "pd.DataFrame") -> str:
    """The first rows of the table, long texts cut."""
    first = table.head(MOST_SHOWN)
    # What a terminal would obey, such as an escape character, is not sent to it.
    letters = first["text"].map(lambda text: [x if x.isprintable() else "\ufffd" for x in text])
    text = first.assign(text=letters.map("".join)).to_string(
        index=False, line_width=WIDTH, max_colwidth=60, float_format="{:.3f}".format
    )
    more = len(table) - MOST_SHOWN
    return f"{text}\nand {more} more; --output writes all" if more > 0 else text


def judged(table: "pd.DataFrame", labels: tuple[str, ...]) -> str:
    """Accuracy, AUROC and true-positive rate, if the texts have labels of the probe."""
    from probing.ranking import ranking

    if unknown := sorted(set(table["truth"]) - set(labels)):
        theirs = ", ".join(labels)
        return f"note: the label {unknown[0]!r} is not one of the probe's ({theirs}): no accuracy"
    scores = table[[name for name in table if name.startswith("score")]].to_numpy()
    measures = ranking(scores[:, 0] if len(labels) == 2 else scores, table["truth"], labels)
    accuracy = (table["label"] == table["truth"]).mean()
    return (
        f"accuracy {accuracy:.3f}, AUROC {measures.auroc:.3f}, true-positive rate at 1% false "
        f"positives {measures.tpr:.3f} ({len(table)} texts)"
    )


def write(table: "pd.DataFrame", path: Path) -> None:
    """Write the table completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_csv = path.suffix == ".csv"
    content = table.to_csv(index=False).encode() if is_csv else table.to_parquet(index=False)
    write_whole(path, content)
