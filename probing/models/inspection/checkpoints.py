"""The checkpoints of a training that was stopped: which is the last that can be resumed?

The Trainer passes over missing files silently: without the states of the optimiser and of the
random numbers a resumed training ends with other weights than an undisturbed one. So a checkpoint
counts if all of its files can be read; the files are data, and no code of theirs is run.
"""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_pt_utils import safe_globals

WEIGHTS = "model.safetensors"
NAME = re.compile(r"checkpoint-(\d{1,12})")


def last_checkpoint(folder: Path) -> str | None:
    """The last checkpoint that is complete and whole; None if there is none."""
    named = [(NAME.fullmatch(path.name), path) for path in folder.glob("checkpoint-*")]
    steps = {int(name[1]): path for name, path in named if name}
    for step in sorted(steps, reverse=True):
        if is_whole(steps[step], step):
            return str(steps[step])
    return None


def is_whole(checkpoint: Path, step: int) -> bool:
    """Whether every file of the checkpoint can be read, and is one of this step."""
    states = [*checkpoint.glob("rng_state*.pth")]  # one per process
    states += [checkpoint / OPTIMIZER_NAME, checkpoint / SCHEDULER_NAME]
    others = [checkpoint / WEIGHTS, checkpoint / TRAINER_STATE_NAME]
    if len(states) < 3 or not all(path.is_file() for path in [*states, *others]):
        return False  # a pipe would be waited for
    try:
        for path in states:
            _load(path)
        with safe_open(checkpoint / WEIGHTS, "pt") as weights:
            weights.keys()
        text = (checkpoint / TRAINER_STATE_NAME).read_text(encoding="utf-8")
        return bool(json.loads(text)["global_step"] == step)
    except Exception:  # torch raises anything on a damaged file; such a checkpoint is passed over
        return False


def _load(path: Path) -> Any:
    with safe_globals():
        return torch.load(path, map_location="cpu", weights_only=True)
