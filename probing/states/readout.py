"""A linear readout of a model's last states: the prediction of a model without a classifier."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from probing.states.tokens import Tokens


@dataclass(frozen=True, eq=False)
class Readout:
    """A logit: the mean of the last states at a site, times ``coef``, plus ``intercept``.

    ``probing.circuits.readouts`` fits one to labels, or takes it from two words of a language
    model.

    >>> Readout("summary", coef, intercept=0.0)(last_states, tokens)
    """

    site: str  # of the tokens whose states are averaged, as in ``Tokens.site``
    coef: Any = field(repr=False)  # (d_model,), stored as a tensor
    intercept: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "coef", torch.as_tensor(self.coef, dtype=torch.float32))
        if self.coef.ndim != 1:
            raise ValueError(f"coef has shape (d_model,), not {(*self.coef.shape,)}")

    def __call__(self, states: Tensor, tokens: Tokens) -> Tensor:
        """One logit per sentence from last states (sentences, n_tokens, d_model)."""
        weights = tokens.site(self.site).float().to(states.device)
        mean = torch.einsum("nt,ntd->nd", weights, states.float()) / weights.sum(1, keepdim=True)
        return mean @ self.coef.to(states.device) + self.intercept
