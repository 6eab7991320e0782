"""Make every result of this project, one stage after the other, and say what they show.

A stage that is there whole, made by the same code with the same settings and inputs, is not made
again; one that was interrupted is taken up. At the end stands one line per claim.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from command_line import run

LONG = ("layer", "noise-length", "scaling", "locations", "success")  # begun first


@dataclass(frozen=True)
class Config:
    results: Path = Path("results")
    """Folder for all results, one sub-folder a stage."""
    only: tuple[str, ...] = ()
    """Make only these stages."""
    seeds: int = 5
    """Training seeds of the small Transformers."""
    full: bool = False
    """All repetitions of the slr studies, where the default has fewer (takes much longer)."""
    smoke: bool = False
    """One seed and a little of everything, to see that it works; into results-smoke by default."""
    overwrite: bool = False
    """Make stages again that are already there."""


def dataset(config: Config) -> None:
    import generate_data

    make(
        config,
        generate_data,
        generate_data.Config(output=config.results / "dataset", extended=True),
    )


def figure1(config: Config) -> None:
    import figure1

    one = figure1.Config(
        output=config.results / "figure1",
        models=config.results / "models",
        probes=config.results / "probes",
        seeds=config.seeds,
        smoke=config.smoke,
    )
    make(config, figure1, one)


def bridge(config: Config) -> None:
    import bridge

    one = bridge.Config(
        output=config.results / "bridge", models=config.results / "models", seeds=config.seeds
    )
    if config.smoke:
        one = replace(one, seeds=1, sentences=96, minilm=False)
    make(config, bridge, one)


def controls(config: Config) -> None:
    """Of the first of the models that figure1 makes."""
    import controls
    import train_transformer
    from run_directory import ensure

    (model,) = train_transformer.tiny_models(config.results / "models", 1).values()
    one = controls.Config(
        model=str(ensure(train_transformer, model)), output=config.results / "controls"
    )
    make(config, controls, one)


def slr(config: Config) -> None:
    import run_slr
    from run_directory import is_current
    from side_by_side import side_by_side

    waiting = []
    for name in sorted(run_slr.STUDIES, key=lambda name: name not in LONG):
        study = run_slr.Config(
            name=name,
            output=config.results / "slr",
            full=config.full,
            smoke=config.smoke,
            overwrite=True,
        )
        settings = run_slr.settings_of(study, name)
        if not config.overwrite and is_current(study.output / name, settings):
            print(f"unchanged: {study.output / name}")
        else:
            waiting.append(study)
    # Side by side, but for the sweep, which takes all cores by itself.
    side_by_side(run_slr.main, [study for study in waiting if study.name != "sweep"], "studies")
    for study in waiting:
        if study.name == "sweep":
            run_slr.main(study)


def report(config: Config) -> None:
    """The last stage: of all others, and of the claims that they bear out."""
    import report
    from claims import as_rows, as_text, read_claims
    from run_directory import write_json

    if not config.results.is_dir():
        raise ValueError(f"{config.results} is no folder; make the other stages first")
    claims = read_claims(config.results)
    write_json(config.results / "claims.json", as_rows(claims))
    make(config, report, report.Config(results=config.results, output=config.results / "report"))
    if not config.smoke:  # of which they would say nothing
        print(as_text(claims))


def make(config: Config, script: Any, one: Any) -> None:
    from run_directory import ensure

    if config.overwrite:
        script.main(replace(one, overwrite=True))
    else:
        ensure(script, one)


STAGES: dict[str, Callable[[Config], None]] = {
    "dataset": dataset,
    "figure1": figure1,
    "bridge": bridge,
    "controls": controls,
    "slr": slr,
    "report": report,
}


def main(config: Config) -> None:
    unknown = [name for name in config.only if name not in STAGES]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    if config.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, not {config.seeds}")
    if config.smoke and config.results == Config.results:  # a little must not replace the whole
        config = replace(config, results=Path("results-smoke"))

    from claims import as_text, read_claims

    names = [name for name in STAGES if not config.only or name in config.only]
    start = time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"== {number}/{len(names)} {name}", flush=True)
        begun = time.perf_counter()
        STAGES[name](config)
        print(f"== {name} took {time.perf_counter() - begun:.0f} s", flush=True)
        if not config.smoke and (claims := read_claims(config.results, (name,))):
            print(as_text(claims), flush=True)
    print(f"== done in {time.perf_counter() - start:.0f} s; results are in {config.results}")


if __name__ == "__main__":
    run(main, Config, __doc__)
