"""What was loaded: complete, as the config says, finite, and able to read a sentence."""

from collections.abc import Collection
from typing import Any

import torch

from data_gen.quoting import one_line
from probing.models.border import model_errors
from probing.models.errors import ModelError
from probing.models.inspection.tokens import check_tokenizer


def check_loaded(
    name: str,
    model: Any,
    tokenizer: Any,
    report: dict[str, Any],
    *,
    head: str | None = None,
    verified: bool = False,
) -> None:
    """Refuse a model, as the library loaded it, that is not what its files hold, or is no use.

    The numbers of weights that were ``verified`` before, by a hash, are not looked at again.
    """
    check_report(name, head, model, report)
    tokens = check_tokenizer(name, tokenizer, len(model.get_input_embeddings().weight))
    if not verified:
        check_finite(name, model)
        check_reading(name, model, tokens)


def check_report(name: str, head: str | None, model: Any, report: dict[str, Any]) -> None:
    """Refuse a model with weights that its files lack, or that lacks weights of its files.

    The library draws the former at random and drops the latter. It has already left out what an
    architecture can do without. Weights of other heads may be dropped; and without a head a pooler
    may be missing, since states do not depend on it.
    """
    if mismatched := report.get("mismatched_keys"):
        keys = {str(key[0] if isinstance(key, tuple) else key) for key in mismatched}
        raise ModelError(f"{name}: its config does not fit the shapes of {_some(keys)}")
    body = set(dict(model.base_model.named_children()))
    prefix = f"{model.base_model_prefix}."
    missing = {
        key for key in report["missing_keys"] if head is not None or "pooler" not in key.split(".")
    }
    in_body = {key for key in missing if _part(key, prefix) in body - {"pooler"}}
    if in_body or (missing and head is None):
        raise ModelError(f"{name} is not complete: its weights lack {_some(in_body or missing)}")
    if missing:
        raise ModelError(f"{name} has no {head} head: its weights lack {_some(missing)}")
    dropped = {key for key in report["unexpected_keys"] if _part(key, prefix) in body - {"pooler"}}
    if dropped:
        raise ModelError(
            f"{name}: its config does not fit its weights, which have {_some(dropped)}; "
            "the model would be loaded without them"
        )
    _check_direction(name, head, model)


def _part(key: str, prefix: str) -> str:
    """The part of the model's body that a weight belongs to."""
    return key.removeprefix(prefix).split(".")[0]


def _some(keys: Collection[str]) -> str:
    named = ", ".join(one_line(key, 60) for key in sorted(keys)[:3])
    return f"{named} and {len(keys) - 3} more" if len(keys) > 3 else named


def _check_direction(name: str, head: str | None, model: Any) -> None:
    causal = [part.is_causal for part in model.modules() if hasattr(part, "is_causal")]
    if head == "language" and causal and not any(causal):
        raise ModelError(f"{name} has no language head: it is an encoder, which sees every word")


def check_finite(name: str, model: Any) -> None:
    """Refuse weights that are not numbers, or infinite in the precision asked for."""
    for key, weights in model.named_parameters():
        # A sum reads each number once and needs no memory; it may itself overflow, so look again.
        if not weights.is_meta and not weights.sum().isfinite() and not weights.isfinite().all():
            raise ModelError(
                f"{name}: {key} holds numbers that are infinite or not a number, as "
                f"{str(weights.dtype).removeprefix('torch.')}"
            )


def check_reading(name: str, model: Any, tokens: list[int]) -> None:
    """Refuse a model that fails on a sentence, or whose answer is not finite."""
    if model.device.type == "meta":  # without numbers, as in tests of placement
        return
    ids = torch.tensor([tokens], device=model.device)
    failure = f"{name} cannot read a sentence"
    with model_errors(failure), torch.no_grad(), torch.random.fork_rng(devices=[]):
        answer = model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
    if not answer.isfinite().all():
        raise ModelError(f"{name} gives states that are infinite or not a number")
