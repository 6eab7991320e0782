"""All studies, in the order in which every page shows them."""

from studies.practice import bridge, controls, dataset, figure1, probes
from studies.theory import (
    activations,
    conditional_mean,
    layer,
    locations,
    noise_length,
    paper,
    portrait,
    scaling,
    success,
    sweep,
    yardsticks,
)

PRACTICE = (dataset.STUDY, figure1.STUDY, probes.STUDY, bridge.STUDY, controls.STUDY)
THEORY = (
    *paper.STUDIES,
    portrait.STUDY,
    yardsticks.STUDY,
    scaling.STUDY,
    success.STUDY,
    layer.STUDY,
    activations.STUDY,
    conditional_mean.STUDY,
    locations.STUDY,
    noise_length.STUDY,
    sweep.STUDY,
)
STUDIES = (*PRACTICE, *THEORY)
