"""One rule for all commands: equal settings change nothing, others are refused in one line."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bad_input import REFUSED, call

from studies import reproduce
from studies.making import ensure, make, with_needs
from studies.settings import differences
from studies.storage.results import read_json, write_json
from studies.study import Options, Result, Study


@dataclass(frozen=True, kw_only=True)
class Numbered(Options):
    seed: int = 0


def counting(made: list[Any], name: str = "counting", **parts: Any) -> Study:
    """A study that notes when it is run."""

    def run(options: Numbered) -> Result:
        made.append((name, options.seed))
        return Result({"numbers": pd.DataFrame({"seed": [options.seed]})})

    return Study(
        name=name,
        title=name,
        about=None,
        options=Numbered,
        run=run,
        folder=name,
        command="",
        says=lambda tables: [tables["numbers"].set_index("seed")],
        **parts,
    )


@pytest.mark.parametrize("entry", [make, ensure])
def test_the_same_settings_again_change_nothing(
    entry: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Any] = []
    for _ in range(2):
        entry(counting(made), Numbered(output=tmp_path / "x"))
    assert made == [("counting", 0)]
    assert f"unchanged: {tmp_path / 'x'}" in capsys.readouterr().out


@pytest.mark.parametrize("entry", [make, ensure])
def test_other_settings_are_named_and_replace_nothing_without_overwrite(
    entry: Any, tmp_path: Path
) -> None:
    made: list[Any] = []
    study, options = counting(made), Numbered(output=tmp_path / "x", seed=3)
    entry(study, options)
    with pytest.raises(FileExistsError, match="seed 3 instead of 4"):
        entry(study, replace(options, seed=4))
    assert pd.read_parquet(tmp_path / "x" / "numbers.parquet")["seed"].tolist() == [3]
    entry(study, replace(options, seed=4, overwrite=True))
    assert made == [("counting", 3), ("counting", 4)]


def test_a_result_of_older_code_is_made_again_for_another_study_but_not_for_a_person(
    tmp_path: Path,
) -> None:
    made: list[Any] = []
    study, options = counting(made), Numbered(output=tmp_path / "x")
    make(study, options)
    settings = tmp_path / "x" / "settings.json"
    text = settings.read_text()
    code = read_json(settings)["code_sha256"]
    settings.write_text(text.replace(code, code[::-1]))  # as long as it was
    with pytest.raises(FileExistsError, match="other code"):
        make(study, options)
    ensure(study, options)
    assert len(made) == 2
    assert settings.read_text() == text


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_result_with_damaged_settings_is_left_alone(overwrite: bool, tmp_path: Path) -> None:
    made: list[Any] = []
    study, options = counting(made), Numbered(output=tmp_path / "x", overwrite=overwrite)
    make(study, options)
    (tmp_path / "x" / "settings.json").write_text("{")
    for entry in (make, ensure):
        ended = call(lambda entry=entry: entry(study, options), within=tmp_path)  # type: ignore[misc]
        assert ended.outcome == REFUSED, ended.said
        assert str(tmp_path / "x") in ended.said
    assert len(made) == 1


def test_long_settings_are_cut_in_an_error_line() -> None:
    (change,) = differences({"texts": ["word"] * 1000}, {"texts": ["other"] * 1000})
    assert len(change) < 130
    assert change.startswith("texts word word")


def test_what_a_study_needs_is_made_first_and_once(tmp_path: Path) -> None:
    made: list[Any] = []
    first = counting(made, "first")
    need = (first, Numbered(output=tmp_path / "first"))
    second = counting(made, "second", needs=lambda _: [need])
    options = Numbered(output=tmp_path / "second")
    assert list(with_needs([(second, options)])) == [need, (second, options)]
    make(second, options)
    make(second, replace(options, output=tmp_path / "third"))
    assert made == [("first", 0), ("second", 0), ("second", 0)]


def test_a_study_notices_that_what_it_needs_has_other_settings(tmp_path: Path) -> None:
    made: list[Any] = []
    first = counting(made, "first")

    def second(seed: int) -> Study:
        needs = [(first, Numbered(output=tmp_path / f"first{seed}", seed=seed))]
        return counting(made, "second", needs=lambda _: needs)

    options = Numbered(output=tmp_path / "second")
    ensure(second(0), options)
    ensure(second(1), options)
    assert made == [("first", 0), ("second", 0), ("first", 1), ("second", 0)]


def test_reproduce_refuses_before_it_makes_anything(tmp_path: Path) -> None:
    """Somebody's probes of other layers stand where figure1 wants the probes of all layers."""
    from studies.practice.probed import PROBED

    mine = tmp_path / "probes"
    mine.mkdir()
    settings = {"made_by": "slr-probing", "study": "probes", "model": "minilm", "layers": [3]}
    write_json(mine / "settings.json", settings)
    (mine / "precious.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"probes was made with other settings .*layers 3"):
        reproduce.main(reproduce.Options(results=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["probes"]
    assert (mine / "precious.txt").is_file()
    assert PROBED["probes"].study in [
        study for study, _ in with_needs(reproduce.figure1_stage(reproduce.Options(seeds=1)))
    ]
