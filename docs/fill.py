"""Fill README.md and docs/*.md with the findings of studies: `make readme`.

Between ``<!-- findings: NAME -->`` and ``<!-- end -->`` the findings of the study whose results are
in results/NAME are written as a list, or, where NAME is ``all``, the sentences with which all pages
begin; the rest of a document is left as it is.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from studies.catalogue import STUDIES
from studies.pages.findings import read_findings, summary

BLOCK = re.compile(r"(<!-- findings: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(document: str, sentences_of: Callable[[str], Sequence[str]]) -> str:
    """The document with the sentences of each study that it names between the marks."""

    def fill(block: re.Match[str]) -> str:
        lines = [f"- {sentence}\n" for sentence in sentences_of(block[2])]
        return block[1] + "".join(lines) + block[3]

    return BLOCK.sub(fill, document)


def findings_of(results: Path, name: str) -> list[str]:
    """The sentences of the study with results in this folder; an error if it has none."""
    if name == "all":
        sentences = summary(read_findings(results))
    else:
        studies = [study for study in STUDIES if study.folder == name]
        sentences = list(map(str, read_findings(results, studies)))
    if not sentences:
        raise SystemExit(f"{results} has no findings of {name}; make them with: make reproduce")
    return sentences


def main(results: Path, root: Path) -> None:
    paths = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    before = {path: path.read_text(encoding="utf-8") for path in paths}
    after = {
        path: filled(text, lambda name: findings_of(results, name)) for path, text in before.items()
    }
    for path in paths:  # from here on nothing can fail
        if after[path] != before[path]:
            path.write_text(after[path], encoding="utf-8")
            print(f"filled {path.relative_to(root)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "results"), Path(__file__).parent.parent)
