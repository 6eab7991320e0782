"""A result is made again when something that decides it changes, and only then."""

import dataclasses
from pathlib import Path

import pytest

from probing.models.downloads import MODELS
from studies import settings
from studies.catalogue import STUDIES, THEORY
from studies.settings import PLACES, data_key, key_of, model_key, settings_of
from studies.theory import layer, paper

code_sha256 = settings.code_sha256.__wrapped__  # not cached: files change here


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "studies/theory/study.py": "def main():\n    from probing.circuits.first import f\n"
        "    from studies.theory import helper\n    from studies.making import make\n",
        "studies/theory/helper.py": "x = 1\n",
        "studies/theory/other.py": "x = 1\n",
        "studies/making.py": "x = 1\n",
        "probing/circuits/first.py": "from probing.second import g\n\ndef f(): return g()\n",
        "probing/circuits/unused.py": "y = 1\n",
        "probing/second.py": "import numpy\nimport slr.sweep\n\ndef g(): return 1\n",
        "slr/sweep/grid.py": "x = 1\n",
        "slr/unused.py": "y = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(settings, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("studies/theory/study.py", True),
        ("studies/theory/helper.py", True),
        ("probing/circuits/first.py", True),
        ("probing/second.py", True),
        ("slr/sweep/grid.py", True),  # of a package that is imported whole
        ("probing/circuits/unused.py", False),
        ("slr/unused.py", False),
        ("studies/theory/other.py", False),
        ("studies/making.py", False),  # carries results, and changes none
    ],
)
def test_what_is_imported_counts_and_nothing_else(project: Path, file: str, changes: bool) -> None:
    study = project / "studies/theory/study.py"
    before = code_sha256(study)
    with (project / file).open("a") as out:
        out.write("z = 2\n")
    assert (code_sha256(study) != before) == changes


def test_comments_and_docstrings_do_not_count(project: Path) -> None:
    study, path = project / "studies/theory/study.py", project / "probing/second.py"
    path.write_text('"""One."""\n\ndef g(): return 1\n')
    before = code_sha256(study)
    path.write_text('"""Another."""\n\n# why\n\n\ndef g():\n    return 1\n')
    assert code_sha256(study) == before
    path.write_text('"""Another."""\n\ndef g(): return 2\n')
    assert code_sha256(study) != before


def test_a_model_is_known_by_its_content_and_not_by_its_place(tmp_path: Path) -> None:
    def model(folder: str, weights: str) -> str:
        path = tmp_path / folder / "tiny"
        path.mkdir(parents=True)
        (path / "config.json").write_text("{}")
        (path / "model.safetensors").write_text(weights)
        (path / "metrics.json").write_text(folder)  # how long training took, say
        return model_key(str(path))

    first, moved, other = (
        model(*one) for one in (("a", "weights"), ("b", "weights"), ("c", "others"))
    )
    assert first == moved != other
    assert [model_key(name) for name in ("minilm", "smollm2", "mpnet")] == [*MODELS]


def test_a_model_of_the_hub_is_known_by_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []
    for commit in ("first", "second"):
        monkeypatch.setattr(
            "probing.models.pretrained.revision_of", lambda _, commit=commit: commit
        )
        keys.append(model_key("bert-base-uncased"))
    assert keys == [f"bert-base-uncased, revision {commit}" for commit in ("first", "second")]


def test_data_are_known_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("text,label\n")
    before = data_key(str(path))
    path.write_text("text,label\na,b\n")
    assert data_key(path) != before
    assert data_key("sentiment") == "sentiment"  # built in: its spec is code


def test_packaged_vectors_are_known_by_their_name_whatever_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("glove", "mine.txt"):
        Path(name).write_text("nice 1 2\n")
    assert key_of("embeddings", "glove") == "glove"
    assert key_of("embeddings", "mine.txt").startswith("mine.txt, sha256 ")


def test_every_option_decides_the_result_unless_it_says_where_or_how() -> None:
    """Opt-out: an option that somebody adds tomorrow counts, without being listed anywhere."""
    for study in STUDIES:
        options = study.options(output=Path("x"))
        given = settings_of(study, options)
        for field in dataclasses.fields(options):
            assert (field.name in given) == (field.name not in PLACES), (study.name, field.name)


def test_other_options_and_only_they_are_other_settings(tmp_path: Path) -> None:
    options = layer.Options(output=tmp_path)
    same = dataclasses.replace(options, output=tmp_path / "x", overwrite=True)
    assert settings_of(layer.STUDY, options) == settings_of(layer.STUDY, same)
    for change in ({"runs": 3}, {"d": 8}, {"seed": 1}, {"smoke": True}, {"steps": 9}):
        other = dataclasses.replace(options, **change)
        assert settings_of(layer.STUDY, options) != settings_of(layer.STUDY, other), change


def test_each_study_has_its_own_code() -> None:
    """A changed legend of one study leaves the others as they are (the paper's five share one)."""
    keys = [settings_of(study, study.options(output=Path("x")))["code_sha256"] for study in THEORY]
    assert len(set(keys)) == len(THEORY) - len(paper.STUDIES) + 1


def test_the_packages_that_compute_have_a_version() -> None:
    for name in settings.COMPUTING:
        assert not settings._version(name).startswith("no "), name
