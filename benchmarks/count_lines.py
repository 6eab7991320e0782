"""Gate: lines and statements by package, of the files that git tracks or of a revision (--git REV).

Statements are those of Python's syntax tree (ast.stmt), without docstrings.
"""

import ast
import io
import subprocess
import sys
import tarfile

import pandas as pd

SOURCE = ["slr", "data_gen", "probing", "studies", "scripts"]
PAGES = (".html", ".js", ".css")


def main(revision: str) -> None:
    rows = []
    archive = git("archive", revision, *SOURCE, "tests", "benchmarks")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for file in files:
            content = files.extractfile(file)
            if content and file.name.endswith((".py", *PAGES)):
                part = "pages" if file.name.endswith(PAGES) else file.name.split("/")[0]
                code = content.read()
                statements = 0 if part == "pages" else count_statements(code)
                rows.append((part, 1, code.count(b"\n"), statements))
    table = pd.DataFrame(rows, columns=["", "files", "lines", "statements"]).groupby("").sum()
    table.loc["source"] = table.loc[SOURCE].sum()
    print(table.loc[[*SOURCE, "source", "tests", "benchmarks", "pages"]].to_string())


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, check=True).stdout


def count_statements(code: bytes) -> int:
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]
    values = [node.value for node in nodes if isinstance(node, ast.Expr)]
    return len(nodes) - sum(isinstance(value, ast.Constant) for value in values)


if __name__ == "__main__":
    tracked = git("stash", "create").decode().strip()  # a commit of what is not committed, if any
    main(sys.argv[2] if sys.argv[1:2] == ["--git"] else tracked or "HEAD")
