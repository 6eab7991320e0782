"""Three labels from a file to a saved probe to new texts, and what the commands refuse."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from data_gen import DatasetError, build_tokenizer, read_data, read_texts
from probing.evaluation import compare_dependence, evaluate
from probing.models.presets import build_model
from probing.models.pretrained import load_model
from probing.probes.saved.folder import load_probe
from probing.sentences import at_most
from studies.command_line import run
from studies.making import make
from studies.practice import causal, controls, probes
from studies.tools import apply

WORDS = {
    "bad": ["stale", "foul", "bland", "awful", "soggy"],
    "fair": ["plain", "usual", "mild", "common", "average"],
    "good": ["tasty", "fine", "crisp", "lovely", "superb"],
}
DISHES = ("soup", "bread", "curry")
TEXTS = [
    f"The {dish} was {word}, they said"
    for dish in DISHES
    for words in WORDS.values()
    for word in words
]


class Made:
    """A model, sentences of three labels, and the folder of their probes."""

    def __init__(self, folder: Path) -> None:
        self.model, self.data, self.output = folder / "model", folder / "own.csv", folder / "probes"
        tokenizer = build_tokenizer(TEXTS)
        model = build_model(tokenizer, "tiny", list(WORDS), seed=0)
        for part in (model, tokenizer):
            part.save_pretrained(self.model)
        pd.DataFrame(
            [
                {"text": text, "label": label, "word": word}
                for label, words in WORDS.items()
                for word in words
                for text in TEXTS
                if word in text
            ]
        ).to_csv(self.data, index=False)
        options = probes.Options(
            model=str(self.model),
            data=str(self.data),
            probes=("summary", "value", "location", "reader", "max"),
            layers=(1,),
            no_controls=True,
            jobs=1,
            output=self.output,
        )
        make(probes.STUDY, options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("three"))


def test_three_labels_are_probed_and_their_probes_saved(made: Made) -> None:
    saved = {path.name for path in (made.output / "saved").iterdir()}
    table = pd.read_parquet(made.output / "probes.parquet")
    assert saved == set(table["probe"]) == {"summary", "value", "location", "reader", "max"}
    train = table[table["split"] == "train"].set_index(["probe", "layer"])
    assert train.loc[("value", 1), ["accuracy", "auroc", "tpr"]].tolist() == [1, 1, 1]
    for name in saved:
        probe = load_probe(made.output / "saved" / name)
        assert probe.layer == 1
        assert probe.labels == (() if name == "location" else tuple(WORDS))
        assert probe.origin.model == str(made.model)
    assert not (made.output / "plane.parquet").exists(), "there are three directions v_hat"


def test_a_probe_judges_the_sentences_of_a_file_as_the_study_did(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The training sentences in a file: accuracy and AUROC of the study's own table."""
    train = read_data(made.data)["train"]
    names = train.features["label"].names
    rows = pd.DataFrame({"text": train["text"][:], "label": [names[y] for y in train["label"][:]]})
    rows.to_csv(tmp_path / "train.csv", index=False)
    table = pd.read_parquet(made.output / "probes.parquet").query("split == 'train' and layer == 1")
    for name in ("summary", "reader", "max"):
        output, folder = tmp_path / f"{name}.parquet", made.output / "saved" / name
        options = apply.Options(probe=folder, data=tmp_path / "train.csv", output=output)
        apply.main(options)
        printed = capsys.readouterr().out
        row = table.set_index("probe").loc[name]
        assert f"accuracy {row['accuracy']:.3f}, AUROC {row['auroc']:.3f}" in printed
        assert f"false positives {row['tpr']:.3f} ({len(rows)} texts)" in printed
        written = pd.read_parquet(output)
        assert (written["label"] == written["truth"]).mean() == pytest.approx(row["accuracy"])
        with pytest.raises(FileExistsError, match="exists"):
            apply.main(options)


def test_the_value_probe_needs_the_word(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made.output / "saved" / "value"
    apply.main(apply.Options(probe=folder, data=made.data))
    assert "accuracy" in capsys.readouterr().out
    (tmp_path / "own.txt").write_text("The soup was fine\n")
    for given in ({"text": ("The soup was fine",)}, {"data": tmp_path / "own.txt"}):
        with pytest.raises(ValueError, match=r"the informative word|no 'word'"):
            apply.main(apply.Options(probe=folder, **given))


def test_labels_of_other_names_are_not_judged(
    made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.jsonl").write_text('{"text": "The soup was fine", "label": "nice"}\n')
    apply.main(apply.Options(probe=made.output / "saved" / "max", data=tmp_path / "own.jsonl"))
    printed = capsys.readouterr().out
    assert "note: the label 'nice' is not one of the probe's (bad, fair, good)" in printed
    assert "accuracy 0" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--probe", "PROBE"], "give texts"),
        (["--probe", "PROBE", "--text", "a", "--data", "b.txt"], "give texts"),
        (["--probe", "nowhere", "--text", "a"], "nowhere is not a folder with a probe"),
        (["--probe", "PROBE", "--text", "a", ""], "text 2 is empty"),
        (["--probe", "PROBE", "--data", "none.txt"], "none.txt does not exist"),
        (["--probe", "PROBE", "--text", "a", "--output", "x.txt"], "must end in .parquet or .csv"),
        (["--probe", "PROBE", "--text", "a", "--model", "minilm"], "this is not the model"),
    ],
)
def test_bad_input_is_one_clear_line(
    made: Made, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(made.output / "saved" / "reader")
    with pytest.raises(SystemExit) as stopped:
        run("apply", [folder if word == "PROBE" else word for word in arguments], prog="apply.py")
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_texts_are_read_from_files_of_three_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one text\n\n another \n")
    assert read_texts(tmp_path / "a.txt") == {"text": ["one text", "another"]}
    (tmp_path / "a.csv").write_text("id,text,label\n1,so fine,good\n2,so foul,bad\n")
    columns = {"text": ["so fine", "so foul"], "label": ["good", "bad"]}
    assert read_texts(tmp_path / "a.csv") == columns
    (tmp_path / "a.jsonl").write_text('{"text": "so fine", "word": "fine"}\n')
    located = {"text": ["so fine"], "span": [(3, 7)]}
    assert read_texts(tmp_path / "a.jsonl", located=True) == located
    for name, content, message in (
        ("b.txt", "\n", "no sentences"),
        ("b.csv", "text,label\nso fine,good\nso foul,\n", "sentence 2: the label is empty"),
        ("b.tsv", "text\n", "must be a text"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DatasetError, match=message):
            read_texts(tmp_path / name)


def test_a_classifier_of_three_labels_is_evaluated(made: Made) -> None:
    """Its accuracy is that of its highest logit, and swapped words change what it predicts."""
    model, tokenizer = load_model(str(made.model), head="classifier")
    dataset = at_most(read_data(made.data), 12)
    table = evaluate(model, tokenizer, dataset).set_index("split")
    for name, split in dataset.items():
        inputs = tokenizer(split["text"][:], return_tensors="pt", padding=True)
        predicted = model(**inputs).logits.argmax(dim=1).tolist()
        right = sum(a == b for a, b in zip(predicted, split["label"][:], strict=True))
        assert table.loc[name, "accuracy"] == pytest.approx(right / len(split))
    depends = compare_dependence({"model": model}, tokenizer, dataset)
    assert depends[["occlusion_share", "gradient_share"]].stack().between(0, 1).all()


@pytest.mark.parametrize("study", [causal, controls], ids=["causal", "controls"])
def test_commands_of_two_labels_refuse_three_before_any_work(
    study: Any, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.subject.Subject.load", pytest.fail)
    options = study.Options(model=str(made.model), data=str(made.data), output=tmp_path / "x")
    with pytest.raises(ValueError, match=r"has 3 labels \(bad, fair, good\); this command needs"):
        make(study.STUDY, options)
    assert not (tmp_path / "x").exists()
