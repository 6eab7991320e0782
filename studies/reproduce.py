"""Make every result of this project, stage by stage, and print what the results show.

A stage is skipped if its result is complete and was made by the same code with the same settings
and inputs; an interrupted stage is resumed.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from probing.models.downloads import MODELS
from studies.bounds import Trainings, check_bounds
from studies.catalogue import PAPER, THEORY
from studies.making import check_settings, ensure, is_made, with_needs
from studies.pages import report
from studies.pages.findings import read_findings, summary
from studies.practice import (
    bridge,
    causal,
    controls,
    dataset,
    decoders,
    figure1,
    length,
    probed,
    transformer,
)
from studies.rendering import as_text
from studies.settings import ROOT
from studies.storage.results import read_json
from studies.study import Need
from studies.workers import in_parallel

BEYOND = THEORY[len(PAPER) :]
LONG = ("scaling", "conditional-mean")  # started first
TIMES = ROOT / "docs" / "times.json"
# Studies that run one by one:
ALL_CORES = ("layer", "noise-length", "softmax-length", "success", "locations", "sweep")


@dataclass(frozen=True, kw_only=True)
class Options:
    results: Path = Path("results")
    """Folder for all results, one sub-folder per stage."""
    only: tuple[str, ...] = ()
    """Make only these: paper, dataset, figure1, bridge, length, causal, controls, slr, report."""
    seeds: Trainings | None = None
    """Number of training seeds of the small Transformers; None: 20, or 1 with --smoke."""
    smoke: bool = False
    """Run a little of everything, as a quick check; the default folder is then results-smoke."""
    overwrite: bool = False
    """Make all stages again, even current ones."""

    def __post_init__(self) -> None:
        check_bounds(self)


def dataset_stage(options: Options) -> list[Need]:
    published = dataset.Options(**places_of(options, "dataset"), extended=True)
    wide = replace(published, spec=probed.WIDE, output=options.results / "dataset-wide")
    return [(dataset.STUDY, published), (dataset.WIDE_STUDY, wide)]


def figure1_stage(options: Options) -> list[Need]:
    places, seeds = places_of(options, "figure1"), options.seeds or 0
    return [(figure1.STUDY, figure1.Options(**places, seeds=seeds, smoke=options.smoke))]


def bridge_stage(options: Options) -> list[Need]:
    places, seeds = places_of(options, "bridge"), options.seeds or 0
    less: dict[str, Any] = {"sentences": 96} if options.smoke else {}
    whole = bridge.Options(**places, seeds=seeds, **less)
    places = places_of(options, "decoders")
    beside = decoders.Options(**places, seeds=seeds, sentences=whole.sentences)
    return [(bridge.STUDY, whole), (decoders.STUDY, beside)]


def length_stage(options: Options) -> list[Need]:
    """Probes on longer texts; not in a quick check, which should not wait for a language model."""
    asked = length.Options(**places_of(options, "length"))
    return [] if options.smoke else [(length.STUDY, asked)]


def causal_stage(options: Options) -> list[Need]:
    """What SmolLM2 says; not in a quick check, which should not wait for a language model."""
    asked = replace(causal.SMOLLM2, **places_of(options, "causal"))
    return [] if options.smoke else [(causal.SMOLLM2_STUDY, asked)]


def controls_stage(options: Options) -> list[Need]:
    """The controls of the first model of figure1, and of MiniLM on many words."""
    (model,) = transformer.tiny_models(options.results / "models", 1).values()
    places = places_of(options, "controls")
    ours = controls.Options(**places, model=str(model.output))
    wide = replace(controls.WIDE, **places_of(options, "controls-wide"))
    more = [] if options.smoke else [(controls.WIDE_STUDY, wide)]
    return [(transformer.STUDY, model), (controls.STUDY, ours), *more]


def paper_stage(options: Options) -> list[Need]:
    values = places_of(options, "slr") | {"smoke": options.smoke}
    return [(study, study.options(**values)) for study in PAPER]


def slr_stage(options: Options) -> list[Need]:
    values = places_of(options, "slr") | {"smoke": options.smoke}
    return [(study, study.options(**values)) for study in BEYOND]


def report_stage(options: Options) -> list[Need]:
    places = places_of(options, "report")
    return [(report.STUDY, report.Options(**places, results=options.results))]


def places_of(options: Options, stage: str) -> dict[str, Any]:
    return {"output": options.results / stage, "overwrite": options.overwrite}


def make_in_turn(needs: list[Need]) -> None:
    for need in needs:
        ensure(*need)


def make_slr(needs: list[Need]) -> None:
    """Make studies in parallel, the longest first; those that use all cores come after them."""
    waiting = []
    for study, options in sorted(needs, key=lambda need: need[0].name not in LONG):
        if options.overwrite or not is_made(study, options):
            waiting.append((study, options))
        else:
            print(f"unchanged: {study.output_of(options)}")
    in_parallel(_ensure, [need for need in waiting if need[0].name not in ALL_CORES], "studies")
    make_in_turn([need for need in waiting if need[0].name in ALL_CORES])


def _ensure(need: Need) -> None:
    ensure(*need)


@dataclass(frozen=True)
class Stage:
    needs: Callable[[Options], list[Need]]
    make: Callable[[list[Need]], None] = make_in_turn


STAGES = {  # the paper's own figures first: they take seconds
    "paper": Stage(paper_stage),
    "dataset": Stage(dataset_stage),
    "figure1": Stage(figure1_stage),
    "bridge": Stage(bridge_stage),
    "length": Stage(length_stage),
    "causal": Stage(causal_stage),
    "controls": Stage(controls_stage),
    "slr": Stage(slr_stage, make_slr),
    "report": Stage(report_stage),
}


def main(options: Options) -> None:
    unknown = [name for name in options.only if name not in STAGES]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if options.seeds is None:
        options = replace(options, seeds=1 if options.smoke else 20)
    if options.smoke and options.results == Options.results:  # must not replace full results
        options = replace(options, results=Path("results-smoke"))
    names = [name for name in STAGES if not options.only or name in options.only]
    needs = {name: STAGES[name].needs(options) for name in names}
    check_all(with_needs(need for stage in needs.values() for need in stage))
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(
            f"== {number}/{len(names)} {name}{time_left(names[number - 1 :], options)}", flush=True
        )
        stage_start = time.perf_counter()
        STAGES[name].make(needs[name])
        print(f"== {name} took {time.perf_counter() - stage_start:.0f} s", flush=True)
    if "report" in names and not options.smoke:
        print(as_text(summary(read_findings(options.results))))
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {options.results}")


def time_left(names: list[str], options: Options) -> str:
    """How long these stages took where docs/times.json was measured; nothing without this file."""
    if options.smoke or not TIMES.is_file():
        return ""
    try:
        stages = read_json(TIMES)["reproduce"]["stages"]
        minutes = sum(stages.get(name, 0) for name in names) / 60
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged: an estimate is no result
        return ""
    return f" (all from here: about {minutes:.0f} minutes on 2 cores)" if minutes >= 1 else ""


def check_all(needs: Iterable[Need]) -> None:
    """Refuse before anything is made, not after an hour, where a result of others would be lost."""
    for study, options in needs:
        model = getattr(options, "model", None)  # of no model, or of one that is here already
        if model is None or model in MODELS or Path(model).exists():
            check_settings(study, options)
