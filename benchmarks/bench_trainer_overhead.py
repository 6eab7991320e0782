"""Claim: the Hugging Face Trainer costs less than 30% over a bare PyTorch loop of the same steps.

Both train `tiny` on the sentiment training split, for one epoch on one thread: the same augmented
sentences, batches of 64, AdamW with the same decay, the same gradient clipping, a rate that falls
linearly. The Trainer also logs, and saves the checkpoints from which a run resumes; a run without
checkpoints shows what they cost. The ways are timed in turn, and the best of each counts.
Overheads are also given in processor time, which a busy machine disturbs less than the clock.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Trainer
from transformers.utils import logging

from data_gen import build_dataset, build_tokenizer
from probing.attribution import label_logits
from probing.models.presets import build_model
from probing.models.training import TrainingConfig, augmented_epochs, one_torch_thread, train

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
TARGET = 30  # per cent


def bare_loop(
    model: Any, tokenizer: Any, texts: list[str], labels: list[int], config: TrainingConfig
) -> None:
    """Training without Trainer, collator, logging and checkpoints."""
    unknown, padding = tokenizer.unk_token_id, tokenizer.pad_token_id
    sentences = augmented_epochs(tokenizer(texts)["input_ids"], labels, unknown, config)
    torch.manual_seed(config.seed)
    batches = torch.split(torch.randperm(len(sentences)), config.batch_size)
    plain = [p for name, p in model.named_parameters() if "bias" in name or "LayerNorm" in name]
    names = {id(p) for p in plain}
    decayed = [p for p in model.parameters() if id(p) not in names]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=config.learning_rate)
    decay = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / len(batches))
    model.train()
    for batch in batches:
        rows = [sentences[i] for i in batch.tolist()]
        ids = [torch.tensor(row["input_ids"]) for row in rows]
        input_ids = pad_sequence(ids, batch_first=True, padding_value=padding)
        numbers = torch.tensor([row["label"] for row in rows])
        output = model(input_ids=input_ids, attention_mask=input_ids != padding, labels=numbers)
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        decay.step()
        optimiser.zero_grad()
    model.eval()


def with_trainer(
    model: Any, tokenizer: Any, texts: list[str], labels: list[int], config: TrainingConfig
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(model, tokenizer, texts, labels, config, Path(folder), quiet=True)


def without_checkpoints(*arguments: Any) -> None:
    with mock.patch.object(Trainer, "_save_checkpoint"):
        with_trainer(*arguments)


def main() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dataset = build_dataset("sentiment")
    texts, labels = dataset["train"]["text"][:], dataset["train"]["label"][:]
    tokenizer = build_tokenizer(texts)
    test, truth = dataset["test"]["text"][:], np.array(dataset["test"]["label"][:], dtype=bool)
    ways: dict[str, Callable[..., None]] = {
        "bare loop": bare_loop,
        "Trainer": with_trainer,
        "Trainer, no checkpoints": without_checkpoints,
    }
    clocks = {"clock": time.perf_counter, "processor": time.process_time}
    seconds: dict[str, dict[str, list[float]]] = {
        name: {clock: [] for clock in clocks} for name in ways
    }
    accuracy = {}
    with one_torch_thread():
        for way in ways.values():  # a warm-up
            model = build_model(tokenizer, "tiny", ["-", "+"], 0)
            way(model, tokenizer, texts[:640], labels[:640], TrainingConfig())
        for _ in range(ROUNDS):
            for name, way in ways.items():
                model = build_model(tokenizer, "tiny", ["-", "+"], 0)
                start = {clock: read() for clock, read in clocks.items()}
                way(model, tokenizer, texts, labels, TrainingConfig())
                for clock, read in clocks.items():
                    seconds[name][clock].append(read() - start[clock])
                accuracy[name] = np.mean(
                    (np.diff(label_logits(model, tokenizer, test))[:, 0] > 0) == truth
                )
    for clock in clocks:
        bare = min(seconds["bare loop"][clock])
        print(f"by the {clock}:")
        for name in ways:
            times = seconds[name][clock]
            rounds = " ".join(f"{t:.2f}" for t in times)
            overhead = f"{100 * (min(times) / bare - 1):+.0f}%"
            print(f"  {name:24} {min(times):6.2f} s  {overhead:>5}  (rounds: {rounds})")
    print(f"target: overhead of the Trainer under {TARGET}%")
    print("accuracy on test: " + ", ".join(f"{name} {accuracy[name]:.3f}" for name in ways))


if __name__ == "__main__":
    main()
