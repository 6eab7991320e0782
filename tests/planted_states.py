"""States with planted directions: K_STAR says where to look, V_STAR what the label is."""

from typing import Any, NamedTuple

import numpy as np

from probing.arrays import unit
from probing.states.tokens import Tokens

D = 20
# States have a mean and a scale in each coordinate, which the probes must see through.
MEAN, SCALE = np.linspace(-3, 3, D), np.geomspace(0.5, 2, D)
K_STAR, V_STAR = np.linalg.qr(np.random.default_rng(99).standard_normal((D, 2)))[0].T


class Pooled(NamedTuple):
    X: Any
    y: Any
    groups: Any


def pooled(n: int, seed: int, *, signal: float = 3.0) -> Pooled:
    """States whose label is read along V_STAR; the group is a word of one label."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(8, size=n)
    y = groups % 2
    X = rng.standard_normal((n, D)) + signal * np.outer(y - 0.5, V_STAR)
    return Pooled(X + MEAN, y, groups)


class Sentences(NamedTuple):
    X: Any
    tokens: Tokens


def sentences(n: int, seed: int) -> Sentences:
    """One token of each sentence lies along K_STAR, and it alone says the label, along V_STAR.

    Another one, the distractor, lies as far along V_STAR, whatever the label.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 8, size=n)
    offsets = np.append(0, np.cumsum(lengths))
    groups = rng.integers(8, size=n)
    y = groups % 2
    states = 0.5 * rng.standard_normal((offsets[-1], D))
    places = np.array([rng.permutation(length)[:2] for length in lengths])
    here, there = (offsets[:-1] + places[:, i] for i in range(2))
    states[here] += 3 * K_STAR + 3 * np.outer(2 * y - 1, V_STAR)
    states[there] += 3 * np.outer(rng.choice([-1, 1], size=n), V_STAR)
    informative = np.zeros(len(states), dtype=bool)
    informative[here] = True
    return Sentences(states * SCALE + MEAN, Tokens(offsets, informative, labels=y, words=groups))


# In the space of scaled states these are the directions that read the planted coordinates.
K_READ, V_READ = unit(K_STAR / SCALE), unit(V_STAR / SCALE)

NAMES = np.array(["bad", "fair", "good"])  # of three labels
