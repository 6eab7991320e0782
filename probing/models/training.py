"""Training of a small Transformer with the Hugging Face Trainer, which can resume and scale.

All epochs are one list of augmented sentences, a function of the seed: a run that is killed and
resumed sees the same sentences in the same order as an undisturbed run.
"""

import math
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from probing.models.augmentation import Augmentation, augment
from probing.models.inspection.checkpoints import last_checkpoint
from slr.checks import check_between, check_whole

SNAPSHOTS = "snapshots"
LARGEST_BATCH = 10**6  # sentences, which go through the model at once
LARGEST_SEED = 2**32 - 1  # of numpy's older generators, which the Trainer sets


class TrainingError(ValueError):
    """Training that cannot continue; the message is one line that says why."""


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of a training run: everything but the data.

    >>> TrainingConfig(seed=1, epochs=2)
    """

    seed: int = 0
    epochs: int = 1
    batch_size: int = 64  # over all processes together
    learning_rate: float = 1e-3  # AdamW, decaying linearly to 0
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        check_whole(1, epochs=self.epochs)
        check_whole(1, most=LARGEST_BATCH, batch_size=self.batch_size)
        check_between(1e-300, 1e300, learning_rate=self.learning_rate)
        check_whole(0, most=LARGEST_SEED, seed=self.seed)


def augmented_epochs(
    token_ids: list[list[int]],
    labels: list[int],
    unknown: int,
    config: TrainingConfig,
    *,
    ends: int = 1,
    stop: int | None = None,
) -> list[dict[str, Any]]:
    """Every sentence once per epoch, newly augmented each time but for its ``ends`` at each side.

    An encoder has one token at each end that is not a word, [CLS] and [SEP], a decoder none;
    ``stop`` is the id of the full stop, if there is one.
    """
    rng = np.random.default_rng([config.seed, 1])

    def augmented(ids: list[int]) -> list[int]:
        last = len(ids) - ends
        words = augment(ids[ends:last], unknown, config.augmentation, rng, stop=stop)
        return [*ids[:ends], *words, *ids[last:]]

    return [
        {"input_ids": augmented(ids), "label": label}
        for _ in range(config.epochs)
        for ids, label in zip(token_ids, labels, strict=True)
    ]


class _Bar(ProgressCallback):  # type: ignore[misc]
    """The Trainer's progress bar, without one line per logged loss."""

    def on_log(self, *_: Any, **__: Any) -> None:
        pass

    def close(self) -> None:
        """End the bar's line, so that an error message starts a new line."""
        if self.training_bar is not None:
            self.training_bar.close()


class _StopAtNan(TrainerCallback):  # type: ignore[misc]
    """Stop with an error when the loss is not finite: it will not become finite again."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        logs = logs or {}
        loss = logs.get("loss", logs.get("train_loss", 0.0))  # the mean at the end
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {state.global_step}; lower the learning rate "
                f"({args.learning_rate:g})"
            )


class _Snapshots(TrainerCallback):  # type: ignore[misc]
    """Save the weights at chosen steps, to see later how a model learned."""

    def __init__(self, folder: Path, steps: Collection[int]) -> None:
        self.folder, self.steps = folder, steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and state.global_step in self.steps:
            self.folder.mkdir(parents=True, exist_ok=True)
            unwrapped = getattr(kwargs["model"], "module", kwargs["model"])  # torchrun wraps
            weights = {name: value.contiguous() for name, value in unwrapped.state_dict().items()}
            save_file(weights, self.folder / f"step-{state.global_step:06}.safetensors")

    on_train_begin = on_step_end


def snapshot_steps(n_steps: int, n: int = 24) -> list[int]:
    """At most n steps from 0 to ``n_steps``, closer together at first, when most is learned."""
    return sorted({round(n_steps * (i / (n - 1)) ** 1.5) for i in range(n)})


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: list[str],
    labels: list[int],
    config: TrainingConfig,
    checkpoints: Path,
    *,
    snapshots: bool = False,
    quiet: bool = False,
) -> None:
    """Train the model in place, resuming a killed run from the folder ``checkpoints``.

    ``snapshots`` also saves the weights at 24 steps, in checkpoints/snapshots; ``quiet`` hides the
    progress bar. Required: a tokenizer that knows every word of the texts, and labels 0, 1, ...

    >>> model = build_model(tokenizer, "tiny", ["negative", "positive"], seed=0)
    >>> train(model, tokenizer, texts, labels, TrainingConfig(seed=0), Path("checkpoints"))
    """
    quiet = quiet or not sys.stderr.isatty()  # no bar in a log file
    if len(texts) != len(labels):
        raise TrainingError(f"{len(texts)} texts but {len(labels)} labels")
    token_ids = tokenizer(texts)["input_ids"]
    if any(tokenizer.unk_token_id in ids for ids in token_ids):
        raise TrainingError("the training texts hold words that the tokenizer does not know")
    ends = tokenizer.num_special_tokens_to_add() // 2
    marks = {"ends": ends, "stop": tokenizer.get_vocab().get(".")}
    sentences = augmented_epochs(token_ids, labels, tokenizer.unk_token_id, config, **marks)
    check_lengths(model, sentences)
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # set by torchrun
    n_steps = math.ceil(len(sentences) / config.batch_size)
    arguments = TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=1,  # of the list that holds all epochs
        per_device_train_batch_size=max(1, config.batch_size // processes),
        learning_rate=config.learning_rate,
        lr_scheduler_type="linear",
        weight_decay=0.01,
        seed=config.seed,
        data_seed=config.seed,
        save_steps=max(50, n_steps // 5),
        save_total_limit=1,
        logging_steps=20,
        logging_nan_inf_filter=False,  # else nan is logged as the previous loss
        report_to=[],
        disable_tqdm=quiet,
        use_cpu=not torch.cuda.is_available(),
        ddp_backend="gloo" if processes > 1 and not torch.cuda.is_available() else None,
    )
    callbacks: list[Any] = [_StopAtNan()]
    if snapshots:
        callbacks.append(_Snapshots(checkpoints / SNAPSHOTS, snapshot_steps(n_steps)))
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=sentences,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    bar = _Bar()
    if not quiet:
        trainer.remove_callback(ProgressCallback)
        trainer.add_callback(bar)
    try:
        with one_torch_thread():
            trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    finally:
        bar.close()
    model.eval()


def check_lengths(model: PreTrainedModel, sentences: list[dict[str, Any]]) -> None:
    """Refuse sentences with more tokens than the model has positions, if it learns positions."""
    tables = (
        module.num_embeddings
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Embedding)
        and name.split(".")[-1] in ("position_embeddings", "wpe")
    )
    longest = max(len(sentence["input_ids"]) for sentence in sentences)
    if longest > (limit := next(tables, longest)):
        raise TrainingError(
            f"a training text has {longest} tokens, with the [UNK]s that augmentation inserts, but "
            f"the model takes {limit} at most; shorten or split the longest texts"
        )


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Run the block with one torch thread, which is several times faster for small matrices.

    >>> with one_torch_thread():
    ...     evaluate(model, tokenizer, dataset)
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def input_noise(model: PreTrainedModel, std: float, seed: int) -> Iterator[None]:
    """Add Gaussian noise to the word vectors that the model reads, in training mode only."""

    def add_noise(module: torch.nn.Module, _: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output + std * torch.randn_like(output) if module.training else None

    torch.manual_seed(seed)
    with model.get_input_embeddings().register_forward_hook(add_noise):
        yield
