"""A hook of mkdocs: the site begins with the page that runs a Transformer, if it has been made.

That page is results/report/index.html, by `make reproduce`; ``extra.front`` of mkdocs.yml has its
place. Only a link to the documentation is added. Without it docs/index.md says how to make it.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import ConfigurationError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

FRONT = "index.md"
LINK = '<li><a href="quick-start.html">Documentation</a></li>\n'
END = "</html>"
# What every page by scripts/report.py has, older ones too: the policy that lets a browser fetch
# nothing, the list of its sections, which is split where the link goes, and the name of its maker.
OURS = re.compile(
    r'<!DOCTYPE html>\n.*<meta http-equiv="Content-Security-Policy" '
    r'content="default-src \'none\'[;"]'
    r'.*<nav aria-label="Sections"><ul>\n(?:<li>[^\n]*</li>\n)*(?=</ul></nav>)'
    r".*<footer>Made by <code>python scripts/report\.py</code>",
    re.DOTALL,
)


def on_config(config: MkDocsConfig) -> None:
    """Refuse a page that is not ours, before anything of an earlier site is removed."""
    if (path := place(config)).is_file():
        read(path)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Leave the text of docs/index.md out of the search where no reader will find it."""
    if page.file.src_uri == FRONT and place(config).is_file():
        page.meta["search"] = {"exclude": True}


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str | None:
    if page.file.src_uri == FRONT and (path := place(config)).is_file():
        return with_link(read(path))
    return None  # as it is


def place(config: MkDocsConfig) -> Path:
    """Where the page is, if it has been made; a relative path starts at mkdocs.yml."""
    return Path(config.config_file_path).parent / config.extra["front"]


def read(path: Path) -> str:
    page = path.read_text(encoding="utf-8", errors="replace")
    if not (OURS.match(page) and page.rstrip().endswith(END)):
        raise ConfigurationError(
            f"{path} is damaged, or scripts/report.py did not make it: it cannot be a front page; "
            "make it again (python scripts/report.py --overwrite) or remove it"
        )
    return page


def with_link(page: str) -> str:
    """The page with a way into the documentation, as the last of its links."""
    before, end, after = page.partition("</ul></nav>")
    return before + LINK + end + after
