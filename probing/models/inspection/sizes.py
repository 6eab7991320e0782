"""Whether a config fits the weights on disk, by arithmetic: before anything is made or allocated.

The library compares shapes, but only after it has made the whole model, and it then fills what does
not fit with random numbers: a config that asks for much more than its files hold would fill the
memory. The bounds here are loose. What fits them is small enough for the library to compare.
"""

from collections.abc import Mapping
from typing import Any

from data_gen.quoting import quoted
from probing.models.errors import ModelError
from probing.models.inspection.weights import Stored

POSITIVE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
OTHERS = ("intermediate_size", "max_position_embeddings", "embedding_size", "num_key_value_heads")
POSITIONS = ("position_embeddings.weight", "wpe.weight", "embed_positions.weight")
MOST_POSITIONS = 2**26  # of models that compute positions


def check_sizes(name: str, config: Any, tensors: Mapping[str, Stored]) -> None:
    """Refuse a config (of the library) whose sizes are wrong or beyond the weights of the model."""
    for field in (*POSITIVE, *OTHERS):
        value = getattr(config, field, None)
        if value is None or isinstance(value, list):  # one number per layer, in some architectures
            continue
        if type(value) is not int or value < 1:
            raise ModelError(f"{name}: its config has {field} {quoted(value)}, not a count")
    check_room(name, config, sum(tensor.size for tensor in tensors.values()))
    tables = [t.shape[0] for key, t in tensors.items() if key.endswith(POSITIONS) and t.shape]
    positions = getattr(config, "max_position_embeddings", None) or 0
    most = max(tables, default=MOST_POSITIONS)
    if positions > most:
        raise ModelError(f"{name}: its config has {positions} positions, its weights {most}")


def check_room(name: str, config: Any, n_weights: int) -> None:
    """Refuse a config that asks for more weights than there are.

    A model has at least one table of words and, per layer, a matrix of a quarter of the squared
    width (layers that share their weights, as in Albert, need that margin); one layer has a matrix
    between its two widths.
    """
    width = getattr(config, "hidden_size", None) or 0
    words = getattr(config, "vocab_size", None) or 0
    layers = getattr(config, "num_hidden_layers", None) or 0
    inner = getattr(config, "intermediate_size", None) or 0
    narrow = min(width, getattr(config, "embedding_size", None) or width)
    needs = {
        f"{words} words of width {narrow}": words * narrow,
        f"{layers} layers of width {width}": layers * width * width // 4,
        f"layers of widths {width} and {inner}": 0 if isinstance(inner, list) else width * inner,
    }
    for what, needed in needs.items():
        if needed > n_weights:
            raise ModelError(
                f"{name}: its config asks for {what}, more than the {n_weights} numbers in its "
                "files; the config belongs to another model, or the files are not complete"
            )
