"""Editing the states of a model while it runs, and restoring the model afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from probing.states.anatomy import anatomy_of
from probing.states.parts import blocks_of


def check_mask(mask: Tensor, states: Tensor) -> None:
    """Refuse a mask of another batch than that of the states (sentences, tokens, ...)."""
    if mask.shape != states.shape[:2]:
        shape = (*states.shape[:2],)
        raise ValueError(f"the mask has shape {(*mask.shape,)}, the states {shape}")


@contextmanager
def edited(
    model: Any, layer: int, edit: Callable[[Tensor], Tensor], mask: Tensor | None = None
) -> Iterator[None]:
    """Run the block with the states at ``layer`` edited at the tokens of ``mask`` (n, tokens).

    Layer 0 is the input of the first block, layer l the output of block l; the last one is edited
    behind the model's final norm, as it is recorded. ``edit`` maps states (m, d) to states (m, d),
    in float32; without a mask every token is edited. Required: a model with a list of blocks, and
    a batch that is padded as the mask is, by ``tokens.site`` on the right.

    >>> with edited(model, 1, Erase(direction, at=0.0), tokens.site("informative")):
    ...     states = read(model, tokens)
    """
    blocks = blocks_of(model)
    if not 0 <= layer <= len(blocks):
        raise ValueError(f"layer must lie between 0 and {len(blocks)}, not {layer}")
    if mask is not None and not mask.any():
        raise ValueError("the mask marks no token, so nothing would be edited")

    def changed(states: Tensor) -> Tensor:
        where = torch.ones(states.shape[:2], dtype=torch.bool) if mask is None else mask
        check_mask(where, states)
        # Numbers of rows instead of a mask: a mask on a GPU would have to be counted first.
        rows = where.flatten().nonzero()[:, 0].to(states.device)
        result = states.flatten(0, 1).clone()
        given = result[rows].float()
        made = edit(given)
        if made.shape != given.shape:
            raise ValueError(f"the edit made {(*made.shape,)} of states {(*given.shape,)}")
        result[rows] = made.to(states.dtype)
        return result.view_as(states)

    def before(module: Any, args: Any, kwargs: Any) -> Any:
        if args:
            return (changed(args[0]), *args[1:]), kwargs
        return args, kwargs | {"hidden_states": changed(kwargs["hidden_states"])}

    def after(module: Any, args: Any, output: Any) -> Any:
        if isinstance(output, Tensor):
            return changed(output)
        return (changed(output[0]), *output[1:])

    # First in line: the library's own capture must see the edited states (docs/gotchas.md).
    if layer == 0:
        handle = blocks[0].register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    else:
        norm = anatomy_of(model).final_norm if layer == len(blocks) else None
        edits = model.base_model.get_submodule(norm) if norm else blocks[layer - 1]
        handle = edits.register_forward_hook(after, prepend=True)
    with handle:  # removes the hook
        yield
