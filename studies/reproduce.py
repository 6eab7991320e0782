"""Make every result of this project, one stage after the other, and say what they show.

A stage that is there whole, made by the same code with the same settings and inputs, is not made
again; one that was interrupted is resumed. At the end stands one line per claim.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.catalogue import THEORY
from studies.making import ensure, make
from studies.pages import report
from studies.pages.claims import as_text, keep_claims, read_claims
from studies.practice import bridge, controls, dataset, figure1, probes, transformer
from studies.results import is_current
from studies.settings import settings_of
from studies.slr_commands import options_for
from studies.study import Study
from studies.workers import in_parallel

LONG = ("layer", "noise-length", "scaling", "locations")  # begun first
ALL_CORES = ("success", "sweep")  # take all cores by themselves: after the others


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = Path("results")
    """Folder for all results, one sub-folder per stage."""
    only: tuple[str, ...] = ()
    """Make only these stages."""
    seeds: int | None = None
    """Training seeds of the small Transformers (default: 5, with --smoke 1)."""
    full: bool = False
    """All repetitions of the slr studies, where the default has fewer (takes much longer)."""
    smoke: bool = False
    """One seed and a little of everything, to see that it works; into results-smoke by default."""
    overwrite: bool = False
    """Make stages again that are already there."""


def make_dataset(options: Options) -> None:
    output = options.results / "dataset"
    make_one(options, dataset.STUDY, dataset.Options(output=output, extended=True))


def make_figure1(options: Options) -> None:
    output = options.results / "figure1"
    wanted = figure1.Options(output=output, seeds=options.seeds or 0, smoke=options.smoke)
    make_one(options, figure1.STUDY, wanted)


def make_bridge(options: Options) -> None:
    wanted = bridge.Options(output=options.results / "bridge", seeds=options.seeds or 0)
    if options.smoke:
        wanted = replace(wanted, sentences=96, minilm=False)
    make_one(options, bridge.STUDY, wanted)


def make_controls(options: Options) -> None:
    """Controls of the first of the models that figure1 makes."""
    (model,) = transformer.tiny_models(options.results / "models", 1).values()
    folder = str(ensure(transformer.STUDY, model))
    wanted = controls.Options(model=folder, output=options.results / "controls")
    make_one(options, controls.STUDY, wanted)


def make_slr(options: Options) -> None:
    given = {"output": options.results / "slr", "full": options.full, "smoke": options.smoke}
    waiting = []
    for study in sorted(THEORY, key=lambda study: study.name not in LONG):
        wanted = options_for(study, **given, overwrite=True)
        if not options.overwrite and is_current(
            study.output_of(wanted), settings_of(study, wanted)
        ):
            print(f"unchanged: {study.output_of(wanted)}")
        else:
            waiting.append((study, wanted))
    in_parallel(_make_pair, [pair for pair in waiting if pair[0].name not in ALL_CORES], "studies")
    for pair in waiting:
        if pair[0].name in ALL_CORES:
            _make_pair(pair)


def _make_pair(pair: tuple[Study, Any]) -> None:
    make(*pair)


def make_report(options: Options) -> None:
    """The last stage: of all others, and of the claims that they bear out."""
    if not options.results.is_dir():
        raise ValueError(f"{options.results} is not a folder; make the other stages first")
    claims = read_claims(options.results)
    keep_claims(options.results, claims)
    wanted = report.Options(results=options.results, output=options.results / "report")
    make_one(options, report.STUDY, wanted)
    if not options.smoke:  # of which they would say nothing
        print(as_text(claims))


def make_one(options: Options, study: Study, wanted: Any) -> None:
    if options.overwrite:
        make(study, replace(wanted, overwrite=True))
    else:
        ensure(study, wanted)


@dataclass(frozen=True)
class Stage:
    make: Callable[[Options], None]
    studies: tuple[Study, ...] = ()  # whose claims are shown after it


STAGES = {
    "dataset": Stage(make_dataset),
    "figure1": Stage(make_figure1, (figure1.STUDY, probes.STUDY)),
    "bridge": Stage(make_bridge, (bridge.STUDY,)),
    "controls": Stage(make_controls, (controls.STUDY,)),
    "slr": Stage(make_slr, THEORY),
    "report": Stage(make_report),
}


def main(options: Options) -> None:
    unknown = [name for name in options.only if name not in STAGES]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if options.smoke and options.full:
        raise ValueError("--smoke and --full exclude each other; leave one out")
    if options.seeds is None:
        options = replace(options, seeds=1 if options.smoke else 5)
    if options.smoke and options.results == Options.results:  # must not replace the whole
        options = replace(options, results=Path("results-smoke"))
    names = [name for name in STAGES if not options.only or name in options.only]
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}", flush=True)
        begun = time.perf_counter()
        STAGES[name].make(options)
        print(f"== {name} took {time.perf_counter() - begun:.0f} s", flush=True)
        claims = read_claims(options.results, STAGES[name].studies)
        if claims and not options.smoke:
            print(as_text(claims), flush=True)
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {options.results}")
