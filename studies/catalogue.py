"""All studies, in the order in which every page shows them."""

from studies.practice import bridge, causal, controls, dataset, decoders, figure1, length, probed
from studies.theory import (
    activations,
    conditional_mean,
    layer,
    locations,
    noise_length,
    paper,
    portrait,
    scaling,
    softmax,
    softmax_length,
    success,
    sweep,
    yardsticks,
)

BEYOND_THE_PAPER = (
    yardsticks, scaling, success, layer, activations, conditional_mean, locations,
    noise_length, softmax, softmax_length, sweep,
)  # fmt: skip
PRACTICE = (
    dataset.STUDY, dataset.WIDE_STUDY, figure1.STUDY, *probed.STUDIES, bridge.STUDY,
    decoders.STUDY, length.STUDY, causal.SMOLLM2_STUDY, controls.STUDY, controls.WIDE_STUDY,
)  # fmt: skip
PAPER = (*paper.STUDIES, portrait.STUDY)
THEORY = (*PAPER, *(module.STUDY for module in BEYOND_THE_PAPER))
STUDIES = (*PRACTICE, *THEORY)
