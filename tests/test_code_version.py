"""A result is made again when code it depends on changes, and only then."""

from pathlib import Path

import code_version
import pytest

code_sha256 = code_version.code_sha256.__wrapped__  # not cached: files change here


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "scripts/study.py": "def main():\n    from probing.first import f\n    import helper\n",
        "scripts/helper.py": "x = 1\n",
        "scripts/other.py": "x = 1\n",
        "probing/first.py": "from probing.second import g\n\ndef f(): return g()\n",
        "probing/second.py": "import numpy\n\ndef g(): return 1\n",
        "probing/unused.py": "y = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code_version, "ROOT", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("scripts/study.py", True),
        ("scripts/helper.py", True),
        ("probing/first.py", True),
        ("probing/second.py", True),
        ("probing/unused.py", False),
        ("scripts/other.py", False),
    ],
)
def test_what_is_imported_counts_and_nothing_else(project: Path, file: str, changes: bool) -> None:
    before = code_sha256(project / "scripts/study.py")
    with (project / file).open("a") as out:
        out.write("z = 2\n")
    assert (code_sha256(project / "scripts/study.py") != before) == changes


def test_comments_and_docstrings_do_not_count(project: Path) -> None:
    path = project / "probing/second.py"
    path.write_text('"""One."""\n\ndef g(): return 1\n')
    before = code_sha256(project / "scripts/study.py")
    path.write_text('"""Another."""\n\n# why\n\n\ndef g():\n    return 1\n')
    assert code_sha256(project / "scripts/study.py") == before
    path.write_text('"""Another."""\n\ndef g(): return 2\n')
    assert code_sha256(project / "scripts/study.py") != before


def test_a_model_is_known_by_its_content_and_not_by_its_place(tmp_path: Path) -> None:
    def model(folder: str, weights: str) -> str:
        path = tmp_path / folder / "tiny"
        path.mkdir(parents=True)
        (path / "config.json").write_text("{}")
        (path / "model.safetensors").write_text(weights)
        (path / "metrics.json").write_text(folder)  # how long training took, say
        return code_version.model_key(str(path))

    first, moved, other = (
        model(*one) for one in (("a", "weights"), ("b", "weights"), ("c", "others"))
    )
    assert first == moved != other
    assert code_version.model_key("bert-base-uncased") == "bert-base-uncased"
