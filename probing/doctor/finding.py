"""A check of the doctor, and its outcome."""

from collections.abc import Callable
from dataclasses import dataclass

from probing.doctor.subject import Patient


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    passed: bool
    measured: str
    protects_from: str


@dataclass(frozen=True)
class Check:
    """A function of a Patient that returns (passed, measured), with its name and its reason."""

    name: str
    protects_from: str
    examined: Callable[[Patient], tuple[bool, str]]

    def __call__(self, patient: Patient) -> Finding:
        try:
            passed, measured = self.examined(patient)
        except Exception as error:  # any: a fault may show itself in any way
            message = " ".join(str(error).split()) or "no message"
            passed, measured = False, f"{type(error).__name__}: {message}"
        return Finding(self.name, bool(passed), measured, self.protects_from)


def check(
    name: str, protects_from: str
) -> Callable[[Callable[[Patient], tuple[bool, str]]], Check]:
    """Make a check of a function; ``DOCTOR`` in checks.py lists all of them.

    >>> @check("seeds", "a seed that controls nothing")
    ... def seeds(patient): ...
    """
    return lambda examined: Check(name, protects_from, examined)
