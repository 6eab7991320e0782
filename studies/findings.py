"""What a reader should take away from a study: one sentence, one number, and its comparison."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One sentence about one number, which can be understood alone.

    A replication has the published value. A prediction has what it required: that was written
    down before its run and is never changed. Any other finding requires nothing and names its
    control in its sentence.
    """

    text: str  # with {} where the number stands
    value: float
    low: float = math.nan  # its 95% interval
    high: float = math.nan
    form: str = ".2f"  # how the number is written
    published: str = ""
    required: str = ""
    holds: bool | None = None  # the prediction, or the published value; None: not comparable
    why: str = ""  # it is missed, different or not comparable
    headline: bool = False  # pages begin with it

    @property
    def group(self) -> str:
        return "replication" if self.published else "prediction" if self.required else "finding"

    @property
    def verdict(self) -> str:
        if self.required:
            return "held" if self.holds else "missed"
        return {True: "same", False: "different", None: "not comparable"}[self.holds]

    @property
    def sentence(self) -> str:
        """The text with its number and interval."""
        number = f"{self.value:{self.form}}"
        if not math.isnan(self.low):
            number += f" [{self.low:{self.form}}, {self.high:{self.form}}]"
        return self.text.replace("{}", number)

    @property
    def outcome(self) -> str:
        """The verdict, with the reason of any that is not "same" or "held"."""
        return self.verdict if self.holds or not self.why else f"{self.verdict}: {self.why}"

    def __str__(self) -> str:
        """The sentence, with what its number is compared with."""
        compared = {
            "replication": f" Published: {self.published}; {self.outcome}.",
            "prediction": f" Predicted: {self.required}; {self.outcome}.",
        }
        return self.sentence + compared.get(self.group, "")


def of_row(row: Any, value: str, ends: str = "") -> dict[str, Any]:
    """A value of a row with its interval, in the columns low and high or ENDS_low and ENDS_high."""
    low, high = (f"{ends}_{end}" if ends else end for end in ("low", "high"))
    return {"value": row[value], "low": row[low], "high": row[high]}


def share(count: int, n: int) -> dict[str, Any]:
    """The share of runs or seeds, with its exact 95% interval (Clopper and Pearson)."""
    from scipy.stats import binomtest

    low, high = binomtest(int(count), int(n)).proportion_ci(method="exact")
    return {"value": count / n, "low": low, "high": high}


def median(values: Any) -> dict[str, Any]:
    """The median over runs or seeds, with its exact 95% interval, by order statistics."""
    from probing.statistics import median_interval

    return dict(zip(("value", "low", "high"), median_interval(np.asarray(values)), strict=True))
