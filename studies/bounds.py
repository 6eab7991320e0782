"""The numbers that options may have: a range beside the type of the field, checked when it is set.

`seed: Seed = 0` is an int for tyro, and `check_bounds` refuses -1 with one line that names --seed.
So a bad number is refused before a folder is made, a model is loaded or memory is taken.
"""

import os
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_type_hints

SHOWN = 24  # characters of a number that a message shows


@dataclass(frozen=True)
class Within:
    """From least to most, both included."""

    least: float
    most: float

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most  # not NaN

    def missed_by(self, value: float) -> str:
        """What a value that is not within should be."""
        end = f"most {self.most:.4g}" if value > self.most else f"least {self.least:g}"
        return f"at {end}, not {shown(value)}"


MOST = 2**63 - 1  # an integer of numpy and of tables
PER_CORE, LARGEST_CLUSTER = 32, 100_000  # processes: more would only wait
Seed = Annotated[int, Within(0, 2**32 - 1)]  # of numpy's older generators, which libraries use
TheorySeed = Annotated[int, Within(0, MOST)]
Count = Annotated[int, Within(1, MOST)]  # of runs, steps, sentences: memory sets the limit
CountOrAll = Annotated[int, Within(0, MOST)]  # 0: all
Pairs = Annotated[int, Within(2, MOST)]  # of sentences, one per label at least
Dimension = Annotated[int, Within(2, 10**18)]
Trainings = Annotated[int, Within(1, 1000)]  # each trains a model, or a probe per layer
Layer = Annotated[int, Within(0, 100_000)]
Jobs = Annotated[int, Within(1, MOST)]  # check_workers sets the limit
Rate = Annotated[float, Within(1e-30, 1e30)]  # positive and finite


def check_bounds(options: Any) -> None:
    """Raise ValueError for the first option that is not within the range of its type."""
    for name, bounds in _bounds(type(options)).items():
        value = getattr(options, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and number not in bounds:
                raise ValueError(f"{flag(name)} must be {bounds.missed_by(number)}")


def check_workers(jobs: int | None, cluster: str | None = None) -> None:
    """Refuse more processes than a machine can run, and what is not the address of a cluster."""
    most, why = PER_CORE * (os.cpu_count() or 1), f" ({PER_CORE} per core)"
    if cluster is not None:
        from slr.workers.address import check_address

        check_address(cluster)
        most, why = LARGEST_CLUSTER, ""
    if jobs and jobs > most:
        raise ValueError(f"--jobs must be at most {most}{why}, not {shown(jobs)}")


def flag(name: str) -> str:
    """The option of a field, as it is written on the command line."""
    return "--" + name.replace("_", "-")


def shown(number: float) -> str:
    """A number for a message, which an integer of 400 digits would fill."""
    text = str(number)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} digits)"


def _bounds(options: type[Any]) -> dict[str, Within]:
    """The ranges by field, also of fields that are tuples of such numbers or may be None."""
    hints = get_type_hints(options, include_extras=True)
    return {name: bounds for name, hint in hints.items() if (bounds := _within(hint))}


def _within(hint: Any) -> Within | None:
    for part in (*getattr(hint, "__metadata__", ()), *get_args(hint)):
        if isinstance(part, Within):
            return part
        if found := _within(part):
            return found
    return None
