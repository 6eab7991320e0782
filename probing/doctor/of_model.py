"""Checks of the model: states, attention and interventions are what they are called."""

import copy
from contextlib import ExitStack
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from probing.arrays import FloatArray, as_array
from probing.circuits.heads import head_directions
from probing.circuits.interventions import reading_only, without_heads
from probing.doctor.finding import check
from probing.doctor.subject import (
    TOLERANCE,
    Patient,
    alone,
    condition,
    distance,
    eager_attention,
)
from probing.sentences import begins_with_word
from probing.states.anatomy import anatomy_of
from probing.states.editing import edited
from probing.states.extraction import read
from probing.states.limits import LONG, first_state_length
from probing.states.parts import blocks_of
from probing.states.readout import Readout
from probing.states.recording import Recording, recorded
from probing.states.tokens import tokenise


@check("model left as found", "a hook, mode or weight that stays behind and changes later results")
def left_as_found(patient: Patient) -> tuple[bool, str]:
    before = condition(patient.model)
    patient.run(attention=True)
    for layer in range(len(blocks_of(patient.model)) + 1):
        with edited(patient.model, layer, lambda states: states + 0):
            alone(patient, patient.sentences()[:1])
    after = condition(patient.model)
    changed = ", ".join(name for name in before if before[name] != after[name])
    measured = f"{after['hooks']} foreign hooks; changed: {changed or 'nothing'}"
    return not changed and not after["hooks"], measured


@check("batched = unbatched", "states that depend on which sentences share a batch")
def batched(patient: Patient) -> tuple[bool, str]:
    error = distance(patient.run().stacked(), _stacked(alone(patient, patient.sentences())))
    # Sentences of one length share a batch without padding: the shortest and the longest do not.
    ends = patient.ends()
    padded = tokenise(patient.tokenizer, {"text": [row["text"] for row in ends]}).padded()
    with recorded(patient.model) as record:
        together = padded.layers(record(**padded.inputs).states)
    error = max(error, distance(together, _stacked(alone(patient, ends))))
    return error < patient.tolerance, f"states differ by {error:.1e} of the largest"


def _stacked(recordings: list[Recording]) -> FloatArray:
    """The states of single sentences, shape (tokens, layers, d_model)."""
    each = [np.stack([as_array(layer[0]) for layer in run.states], 1) for run in recordings]
    return np.concatenate(each)


@check("padding side", "positions, and so states, that shift with the side of the padding")
def padding_side(patient: Patient) -> tuple[bool, str]:
    tokenizers = [copy.deepcopy(patient.tokenizer) for _ in range(2)]
    tokenizers[0].padding_side, tokenizers[1].padding_side = "right", "left"
    error = distance(*(patient.run(tokenizer=tokenizer).stacked() for tokenizer in tokenizers))
    return error < patient.tolerance, f"left and right differ by {error:.1e} of the largest state"


@check("attention", "empty attention (sdpa), weights after dropout, or those of another token")
def attention(patient: Patient) -> tuple[bool, str]:
    states = patient.run(positions=(), attention=True)
    config = patient.model.config.get_text_config()
    if states.attention is None or not states.attention.size:
        return False, "no attention was returned"
    sums = np.add.reduceat(states.attention, states.tokens.offsets[:-1])
    error = float(np.abs(sums - 1).max())
    n_layers, n_heads = states.attention.shape[1:]
    right = (n_layers, n_heads) == (config.num_hidden_layers, config.num_attention_heads)
    first = states.tokens.sentence(0)
    others = distance(eager_attention(patient), states.attention[first])
    measured = f"{n_layers} layers of {n_heads} heads, rows sum to 1 within {error:.1e}, "
    measured += f"differ by {others:.1e} from the library's"
    return right and max(error, others) < patient.tolerance, measured


@check("captured layers", "hidden states that are not those of the layer they are named after")
def captured_layers(patient: Patient) -> tuple[bool, str]:
    seen: list[torch.Tensor] = []

    def look(states: torch.Tensor) -> torch.Tensor:
        seen.append(states)
        return states

    n_layers = len(blocks_of(patient.model))
    with ExitStack() as stack:
        for layer in range(1, n_layers + 1):
            stack.enter_context(edited(patient.model, layer, look))
        recording = alone(patient, patient.sentences()[:1])[0]
    states = [layer[0] for layer in recording.states]
    pairs, tolerance = zip(seen, states[1:], strict=True), patient.tolerance
    wrong = [i + 1 for i, pair in enumerate(pairs) if distance(*pair) > tolerance]
    distinct = all(distance(below, above) > TOLERANCE for below, above in pairwise(states))
    how = f"wrong at layer {wrong[0]}" if wrong else "all differ" if distinct else "two are equal"
    measured = f"{len(states)} states for {n_layers} layers and the embeddings; {how}"
    return distinct and not wrong, measured


@check("first words", "a word that decides, stands first, and has the state of any first word")
def first_words(patient: Patient) -> tuple[bool, str]:
    ratio, layer = first_state_length(patient.run())
    first = np.concatenate([begins_with_word(split) for split in patient.dataset.values()])
    measured = f"first states are {ratio:.0f} times as long as the median at layer {layer}; "
    measured += f"{first.sum()} of {len(first)} sentences begin with the word that decides"
    passed = ratio < LONG or not first.any()
    return passed, measured if passed else f"{measured}: put a word before it"


@check("interventions show", "ablations that change nothing, reported as having no effect")
def interventions(patient: Patient) -> tuple[bool, str]:
    first = patient.sentences()[:1]
    before = alone(patient, first)[0]
    missed = []
    for number in range(1, len(before.states)):
        size = before.states[number].abs().max().item()
        generator = torch.Generator().manual_seed(patient.seed)
        shift = size * torch.randn(before.states[number].shape[-1], generator=generator)
        with edited(patient.model, number, partial(_shifted, shift)):
            after = alone(patient, first)[0]
        changed = distance(after.states[number], before.states[number])
        spared = distance(after.states[number - 1], before.states[number - 1])
        if changed < 0.1 or spared > patient.tolerance:
            missed.append(number)
    n_layers = len(before.states) - 1
    measured = f"seen at {n_layers - len(missed)} of {n_layers} layers, not below them"
    if missed or _heads_show(patient):
        return not missed, measured
    return False, f"{measured}; but ablated heads change no prediction"


def _shifted(shift: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    return states + shift.to(states.device)


def _heads_show(patient: Patient) -> bool:
    """Whether the prediction that causal tests read changes once all heads write zeros.

    The prediction is that of a classifier of two labels, or of some readout. Attention is also
    moved, and the directions of heads computed: what the causal tests cannot do raises an error.
    """
    model, anatomy = patient.model, anatomy_of(patient.model)
    tokens = tokenise(patient.tokenizer, patient.columns())
    coef = torch.randn(anatomy.d_model, generator=torch.Generator().manual_seed(patient.seed))
    readout = None if patient.takes_causal_tests else Readout("summary", coef, 0.0)
    heads = [(i + 1, j + 1) for i, j in np.ndindex(anatomy.n_layers, anatomy.n_heads)]
    before = read(model, tokens, readout, states=False).logits
    with without_heads(model, heads):
        after = read(model, tokens, readout, states=False).logits
    with reading_only(model, anatomy.n_layers, tokens, "informative"):
        read(model, tokens, readout, states=False)
    head_directions(model, tokens.take(np.arange(1)), readout)
    return distance(before, after) > patient.tolerance
