"""Settings and fixtures that several test files share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings

# The same examples on every machine: a failure seen in CI is seen here too.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # test processes share the cores: one thread for each
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def sentiment() -> Any:
    """The default dataset with all its splits."""
    from data_gen import build_dataset

    return build_dataset("sentiment", extended=True)


@pytest.fixture(scope="session")
def wide() -> Any:
    """The wide dataset with all its splits."""
    from data_gen import build_dataset

    return build_dataset("sentiment-wide", extended=True)


@pytest.fixture(scope="session")
def tokenizer(sentiment: Any) -> Any:
    """The word-level tokenizer of its training split."""
    from data_gen import build_tokenizer

    return build_tokenizer(sentiment["train"]["text"][:])


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Models as small as those of tests spend their time waiting for a second thread."""
    from probing.models.training import one_torch_thread

    with one_torch_thread():
        yield


@pytest.fixture(scope="module")
def rows(sentiment: Any) -> Any:
    """Sentences of several lengths, some of them twice, as the columns that extraction needs."""
    found = [sentiment[name].shuffle(seed=0)[:8] for name in ("train", "ood_structure")]
    texts = [text for part in found for text in part["text"]]
    spans = [tuple(span) for part in found for span in part["span"]]
    return {"text": texts + texts[5:7], "span": spans + spans[5:7]}


@pytest.fixture(scope="module")
def pieces(sentiment: Any) -> Any:
    """A tokenizer that cuts words into pieces."""
    from small_models import wordpiece

    return wordpiece(sentiment["train"]["text"][:])


@pytest.fixture(scope="session")
def live_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results with the trained model that runs in the page, made once for all workers."""
    from studies.making import make
    from studies.pages.report import LIVE
    from studies.practice import transformer

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    output = shared / "live-results" / LIVE
    options = transformer.Options(snapshots=True, max_rows=100, output=output)
    with FileLock(shared / "live-results.lock"):
        if not output.exists():
            make(transformer.STUDY, options)
    return shared / "live-results"


@pytest.fixture(scope="session")
def live_page(live_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with this model and no other result."""
    from studies.pages import report

    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(report.render(live_results), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser without a window; tests that need one are skipped where there is none."""
    from headless import headless_browser

    with headless_browser() as opened:
        yield opened
