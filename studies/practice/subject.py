"""What a command on any model looks at: the options that such commands share."""

from dataclasses import dataclass


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
