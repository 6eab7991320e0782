"""What a command on any model looks at: the options that such commands share."""

from dataclasses import dataclass
from typing import Any

from studies.results import SETTINGS, read_json
from studies.study import Tables


@dataclass(frozen=True, kw_only=True)
class Subject:
    model: str = "minilm"
    """minilm, the folder of a model, or a name on the hub such as bert-base-uncased."""
    data: str = "sentiment"
    """A built-in dataset, a TOML spec, a folder of generate_data.py, or your own CSV or JSONL."""
    seed: int = 0
    """Seed of the untrained model, of controls and of intervals."""

    def check_seed(self) -> None:
        if self.seed < 0:
            raise ValueError(f"--seed must not be negative, but is {self.seed}")

    def check_layers(self, layers: tuple[int, ...], model: Any) -> None:
        n_layers = model.config.num_hidden_layers
        if any(not 0 <= layer <= n_layers for layer in layers):
            raise ValueError(f"--layers must lie between 0 and {n_layers} for {self.model}")


def model_name(tables: Tables) -> str:
    """The model that a result is about, as pages call it."""
    name = str(read_json(tables.folder / SETTINGS)["model"]).split(", ")[0]  # without its hash
    return {"minilm": "MiniLM"}.get(name, name)
