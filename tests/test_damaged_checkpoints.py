"""A checkpoint is resumed if it is whole, and is data: nothing in it is run."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bad_input import ACCEPTED, call
from damage import to_folder, to_half, to_pipe
from safetensors.torch import save_file
from transformers.trainer_pt_utils import safe_globals

from probing.models.inspection.checkpoints import last_checkpoint


class Evil:
    """What a hostile pickle does when it is loaded by a careless program."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as the Trainer writes it, small."""
    folder = tmp_path / "checkpoint-50"
    folder.mkdir()
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.AdamW([weight])
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    torch.save({"last_epoch": 50}, folder / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, folder / "rng_state.pth")
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 50}))
    return folder


FILES = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors", "trainer_state.json")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": to_half,
    "text": lambda path: path.write_text("hello"),
    "pickle": lambda path: torch.save(Evil(path.parent.parent / "run"), path),
    "pipe": to_pipe,
    "folder": to_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_checkpoint_is_passed_over(file: str, damage: str, checkpoint: Path) -> None:
    folder = checkpoint.parent
    assert last_checkpoint(folder) == str(checkpoint)
    later = folder / "checkpoint-100"
    shutil.copytree(checkpoint, later)
    (later / "trainer_state.json").write_text(json.dumps({"global_step": 100}))
    assert last_checkpoint(folder) == str(later)
    DAMAGES[damage](later / file)
    ended = call(lambda: last_checkpoint(folder), within=folder)
    assert (ended.outcome, ended.value) == (ACCEPTED, str(checkpoint)), ended.said
    assert not (folder / "run").exists(), "the pickle was run"


def test_the_evil_pickle_is_one(tmp_path: Path) -> None:
    torch.save(Evil(tmp_path / "run"), tmp_path / "evil.pt")
    with pytest.raises(Exception, match="Weights only load failed"), safe_globals():
        torch.load(tmp_path / "evil.pt", weights_only=True)
    assert not (tmp_path / "run").exists()
    torch.load(tmp_path / "evil.pt", weights_only=False)
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "state", ["{}", "[]", "50", '{"global_step": "50"}', '{"global_step": 51}']
)
def test_a_state_of_another_step_is_passed_over(state: str, checkpoint: Path) -> None:
    (checkpoint / "trainer_state.json").write_text(state)
    assert last_checkpoint(checkpoint.parent) is None


def test_other_names_are_not_checkpoints(checkpoint: Path) -> None:
    for name in ("checkpoint-", "checkpoint-x", "checkpoint-1e9", "checkpoint-" + "9" * 99):
        shutil.copytree(checkpoint, checkpoint.with_name(name))
    assert last_checkpoint(checkpoint.parent) == str(checkpoint)
    assert last_checkpoint(checkpoint / "none") is None
