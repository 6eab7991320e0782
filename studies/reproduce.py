"""Make every result of this project, stage by stage, and print what the results show.

A stage is skipped if its result is complete and was made by the same code with the same settings
and inputs; an interrupted stage is resumed. The output ends with one line per claim.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from studies.catalogue import THEORY
from studies.making import ensure, is_made, make
from studies.pages import report
from studies.pages.claims import as_text, keep_claims, read_claims
from studies.practice import bridge, controls, dataset, figure1, probes, transformer
from studies.slr_commands import options_for
from studies.study import Study
from studies.workers import in_parallel

LONG = ("layer", "noise-length", "scaling", "locations")  # started first
ALL_CORES = ("success", "sweep")  # use all cores themselves, so they run after the others


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = Path("results")
    """Folder for all results, one sub-folder per stage."""
    only: tuple[str, ...] = ()
    """Make only these stages."""
    seeds: int | None = None
    """Number of training seeds of the small Transformers; None: 5, or 1 with --smoke."""
    full: bool = False
    """Run all repetitions of the slr studies, not only some (takes much longer)."""
    smoke: bool = False
    """Run a little of everything, as a quick check; the default folder is then results-smoke."""
    overwrite: bool = False
    """Make all stages again, even current ones."""


def make_dataset(options: Options) -> None:
    places = places_of(options, "dataset")
    ensure(dataset.STUDY, dataset.Options(**places, extended=True))


def make_figure1(options: Options) -> None:
    places, seeds = places_of(options, "figure1"), options.seeds or 0
    ensure(figure1.STUDY, figure1.Options(**places, seeds=seeds, smoke=options.smoke))


def make_bridge(options: Options) -> None:
    less: dict[str, Any] = {"sentences": 96, "minilm": False} if options.smoke else {}
    places, seeds = places_of(options, "bridge"), options.seeds or 0
    ensure(bridge.STUDY, bridge.Options(**places, seeds=seeds, **less))


def make_controls(options: Options) -> None:
    """Make the controls of the first model of figure1."""
    (model,) = transformer.tiny_models(options.results / "models", 1).values()
    folder = str(ensure(transformer.STUDY, model))
    ensure(controls.STUDY, controls.Options(**places_of(options, "controls"), model=folder))


def places_of(options: Options, stage: str) -> dict[str, Any]:
    return {"output": options.results / stage, "overwrite": options.overwrite}


def make_slr(options: Options) -> None:
    values = places_of(options, "slr") | {"full": options.full, "smoke": options.smoke}
    pairs = []
    for study in sorted(THEORY, key=lambda study: study.name not in LONG):
        study_options = options_for(study, **values)
        if options.overwrite or not is_made(study, study_options):
            pairs.append((study, replace(study_options, overwrite=True)))
        else:
            print(f"unchanged: {study.output_of(study_options)}")
    in_parallel(_make_pair, [pair for pair in pairs if pair[0].name not in ALL_CORES], "studies")
    for pair in pairs:
        if pair[0].name in ALL_CORES:
            _make_pair(pair)


def _make_pair(pair: tuple[Study, Any]) -> None:
    make(*pair)


def make_report(options: Options) -> None:
    """Make the report of all other stages, and judge the claims."""
    if not options.results.is_dir():
        raise ValueError(f"{options.results} is not a folder; make the other stages first")
    claims = read_claims(options.results)
    keep_claims(options.results, claims)
    ensure(report.STUDY, report.Options(**places_of(options, "report"), results=options.results))
    if not options.smoke:  # a smoke result supports no claim
        print(as_text(claims))


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
    if options.smoke and options.results == Options.results:  # must not replace full results
        options = replace(options, results=Path("results-smoke"))
    names = [name for name in STAGES if not options.only or name in options.only]
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}", flush=True)
        stage_start = time.perf_counter()
        STAGES[name].make(options)
        print(f"== {name} took {time.perf_counter() - stage_start:.0f} s", flush=True)
        claims = read_claims(options.results, STAGES[name].studies)
        if claims and not options.smoke:
            print(as_text(claims), flush=True)
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {options.results}")
