"""The Transformer and what it knows: models, their states, probes, circuits, and a doctor.

>>> from probing import LinearProbe, extract, load_model
>>> states = extract(*load_model("minilm"), build_dataset()["train"])
>>> LinearProbe().fit(states.at(3, "summary"), states.tokens.labels, groups=states.tokens.words)

A name is imported when it is first used: ``import probing`` loads neither torch nor transformers.
"""

from importlib import import_module
from typing import Any

_EXPORTS = {
    "circuits.causal": "Trial causal_table",
    "circuits.directions": "directions_table state_directions",
    "circuits.heads": "head_directions",
    "circuits.interventions": "Erase Leace Reflect Steer reading_only without_heads",
    "circuits.learning": "learning_curve",
    "circuits.readouts": "linear_readout word_readout",
    "doctor.checks": "examine",
    "doctor.subject": "Patient",
    "evaluation": "compare_sparsity evaluate summary_attention",
    "models.presets": "build_model",
    "models.pretrained": "load_model revision_of untrained_like",
    "models.training": "TrainingConfig one_torch_thread train",
    "probes.by_layer": "chosen_layers fit_probes layer_means probe_cells probe_states probe_table "
    "token_plane",
    "probes.head": "SingleLocationHead",
    "probes.linear": "LinearProbe shuffled_labels",
    "probes.locate_and_read": "LocateAndRead",
    "probes.location": "LocationProbe",
    "probes.saved.folder": "load_probe save_probe",
    "probes.saved.probe": "Origin SavedProbe",
    "probes.splits": "read_splits",
    "ranking": "auroc tpr_at",
    "sentences": "at_most draw_by_word with_suffix",
    "sparsity": "attention_mass sparsity_table",
    "states.attention": "attending",
    "states.editing": "edited",
    "states.extraction": "extract read",
    "processes": "joined",
    "states.tokens": "States Tokens tokenise",
    "states.views": "sentence_views",
    "statistics": "median_interval word_interval",
}
_HOMES = {name: module for module, names in _EXPORTS.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'probing' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"probing.{_HOMES[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
