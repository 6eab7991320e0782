"""A shuffled order of 0 .. n-1 that is computed, not stored.

A Feistel network is a bijection of the 2b-bit integers whatever its round function; walking
along its cycles until the value falls below n makes it a bijection of 0 .. n-1 (Black and
Rogaway 2002, "Ciphers with arbitrary finite domains"). So a grammar of 10^12 sentences is
sampled without replacement in constant memory, and any part of the order can be computed alone.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

UintArray = npt.NDArray[np.uint64]

N_ROUNDS = 6
BLOCK = 4096  # positions computed at a time: large enough for numpy, small enough for any memory


def shuffled(positions: range, n: int, seed: int) -> Iterator[int]:
    """The entries at ``positions`` of a pseudo-random permutation of ``range(n)``, n <= 2^62."""
    for first in range(0, len(positions), BLOCK):
        block = positions[first : first + BLOCK]
        # Not np.array(block): from 2^31 on numpy converts a range through float64.
        values = np.arange(len(block), dtype=np.uint64) * np.uint64(block.step)
        yield from permute(values + np.uint64(block.start), n, seed).tolist()


def permute(values: UintArray, n: int, seed: int) -> UintArray:
    """The image of each value in 0 .. n-1 under the permutation that (n, seed) names."""
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    rng = np.random.default_rng([seed, n])
    keys: UintArray = rng.integers(2**64, size=N_ROUNDS, dtype=np.uint64)
    values = _feistel(values, half_bits, keys)
    while (outside := values >= n).any():  # the domain is below 4n: 4 rounds on average
        values[outside] = _feistel(values[outside], half_bits, keys)
    return values


def _feistel(values: UintArray, half_bits: int, keys: UintArray) -> UintArray:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right ^ key) & mask)
    return (left << shift) | right


def _mix(values: UintArray) -> UintArray:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
