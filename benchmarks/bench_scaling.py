"""Claim: memory does not grow with the sentences, and one layer costs one layer.

stream    Peak memory and accuracy of fits from sums (mean difference, LDA, ridge) to sentences of
          the wide grammar at MiniLM's layer 1, of which no state is kept, beside a fit to states
          that are. Target: the largest number takes at most 5% more memory than the smallest.
          oneDNN keeps a compiled kernel for each shape of a batch, 1024 of them unless the
          environment says otherwise: that grows at first, so it is limited to 64 here, and the
          default is shown beside it. At layer 0, the embeddings, no matrix is multiplied: what is
          left there is the memory of the fits themselves.
layer     Seconds and bytes from disk to read one layer of twelve, beside the first version's layout
          (one file, in which the layers of a sentence lie side by side). Target: no byte twice.
bfloat16  Bytes on disk and accuracies of probes on MiniLM, beside float32.
twelve    Peak memory of extracting all splits of `sentiment` with a model of 12 layers x 768 (MPNet
          if it is downloaded, else BERT-base with random weights). Target: under 2 GiB.

`bench_scaling.py` runs all parts on few sentences, `bench_scaling.py stream --all` one part on as
many as its claim names: 10^6 sentences, or all data. A target that is missed gives exit code 1.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("stream", "layer", "bfloat16", "twelve")
LAYER, POSITION = int(os.environ.get("LAYER", "1")), "informative"
JUDGED = ("test", "ood_tokens", "ood_structure", "ood_structure_tokens")
KINDS = ("mean difference", "lda", "ridge")


def main(arguments: list[str]) -> None:
    if arguments and arguments[0] == "--inside":  # a process whose memory is measured
        result = globals()[f"inside_{arguments[1]}"](int(arguments[2]))
        # In kB on Linux.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result | {"peak_mib": peak}))
        return
    everything = "--all" in arguments
    parts = [part for part in arguments if part != "--all"] or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"no part {unknown.pop()}; there are {', '.join(PARTS)}")
    met = []
    for part in parts:
        print(f"\n== {part}", flush=True)
        met.append(globals()[f"measure_{part}"](everything))
    if not all(met):
        raise SystemExit("a target is missed")


def inside(part: str, n: int, **environment: str) -> dict[str, Any]:
    """The result of a part in a fresh process, with its peak memory."""
    command = [sys.executable, __file__, "--inside", part, str(n)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    environment = os.environ | environment
    output = subprocess.run(command, check=True, env=environment, **options).stdout
    return dict(json.loads(output.splitlines()[-1]))


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


# ---- streaming fits


def measure_stream(everything: bool) -> bool:
    sizes = [10**4, 10**5, 10**6] if everything else [2000, 10_000]
    print("sentences  fit                  peak MiB  seconds  " + "  ".join(JUDGED))
    peaks = []
    for n in sizes:
        streamed = inside("stream", n, ONEDNN_PRIMITIVE_CACHE_CAPACITY="64")
        peaks.append(streamed["peak_mib"])
        show(n, streamed)
    for n in sizes:
        print(f"layer 0: {n} sentences, {inside('stream', n, LAYER='0')['peak_mib']:.0f} MiB")
    for n in sizes[:2]:
        print(f"with 1024 kernels: {n} sentences, {inside('stream', n)['peak_mib']:.0f} MiB")
        show(n, inside("stored", n, ONEDNN_PRIMITIVE_CACHE_CAPACITY="64"))
    print(f"memory of the largest over the smallest: {peaks[-1] / peaks[0]:.3f} (target: 1.05)")
    return peaks[-1] <= 1.05 * peaks[0]


def show(n: int, measured: dict[str, Any]) -> None:
    for kind, accuracies in measured["accuracies"].items():
        shown = "  ".join(f"{accuracies[name]:{len(name)}.3f}" for name in JUDGED)
        cost = f"{measured['peak_mib']:8.0f}  {measured['seconds']:7.0f}"
        print(f"{n:9d}  {kind:<21}{cost}  {shown}", flush=True)


def wide_states(model: Any, tokenizer: Any) -> dict[str, Any]:
    from data_gen import build_dataset
    from probing.states.extraction import extract

    dataset = build_dataset("sentiment-wide")
    options: dict[str, Any] = {"positions": (POSITION,), "layers": [LAYER]}
    return {name: extract(model, tokenizer, dataset[name], **options) for name in JUDGED}


def judged(probe: Any, states: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(probe.score(part.at(LAYER, POSITION), part.tokens.labels))
        for name, part in states.items()
    }


def sentences(n: int) -> Any:
    from data_gen import stream_dataset

    return islice(iter(stream_dataset("sentiment-wide", "train", seed=0, whole=True)), n)


def inside_stream(n: int) -> dict[str, Any]:
    from probing.models.pretrained import load_model
    from probing.probes.streaming import Moments
    from probing.states.extraction import streamed

    model, tokenizer = load_model("minilm")
    moments, start = Moments([0, 1]), time.perf_counter()
    options: dict[str, Any] = {"positions": (POSITION,), "layers": [LAYER]}
    for states in streamed(model, tokenizer, sentences(n), **options):
        moments.update(states.at(LAYER, POSITION), states.tokens.labels)
    seconds, held_out = time.perf_counter() - start, wide_states(model, tokenizer)
    probes = {f"{kind}, sums": moments.probe(kind) for kind in KINDS}
    accuracies = {kind: judged(probe, held_out) for kind, probe in probes.items()}
    return {"seconds": seconds, "accuracies": accuracies}


def inside_stored(n: int) -> dict[str, Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    from probing.models.pretrained import load_model
    from probing.probes.linear import LinearProbe
    from probing.states.extraction import extract

    model, tokenizer = load_model("minilm")
    rows, start = list(sentences(n)), time.perf_counter()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    states = extract(model, tokenizer, columns, positions=(POSITION,), layers=[LAYER])
    X, y = states.at(LAYER, POSITION), states.tokens.labels
    probes = {
        "lda of scikit-learn": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3).fit(X, y),
        "logistic, stored": LinearProbe(C=0.01).fit(X, y),
    }
    seconds, held_out = time.perf_counter() - start, wide_states(model, tokenizer)
    accuracies = {kind: judged(probe, held_out) for kind, probe in probes.items()}
    return {"seconds": seconds, "accuracies": accuracies}


# ---- one layer of twelve


def bytes_read() -> int:
    """Bytes that this process had fetched from disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def forget(path: Path) -> None:
    """Drop a file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_layer(everything: bool) -> bool:
    from probing.states.store import open_folder

    n, n_layers, d = 50_000 if everything else 10_000, 13, 768
    rng, rows = np.random.default_rng(0), np.arange(n)
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        layers = {layer: rng.standard_normal((n, d), dtype=np.float32) for layer in range(n_layers)}
        shapes = {(layer, "summary"): (n, d) for layer in layers}
        with open_folder(folder / "ours", {}, shapes, n) as store:
            for layer, values in layers.items():
                store.put((layer, "summary"), rows, values)
            store.finish(slice(0, n))
        stacked = np.lib.format.open_memmap(folder / "one.npy", "w+", np.float32, (n, n_layers, d))
        for layer, values in layers.items():
            stacked[:, layer] = values
        stacked.flush()
        del stacked
        for path in folder.rglob("*.*"):
            if path.is_file():
                forget(path)
        results = {}
        for kind, read in (
            ("one file per layer", lambda: np.array(store.states(shapes)[6, "summary"])),
            ("one file", lambda: np.array(np.load(folder / "one.npy", mmap_mode="r")[:, 6])),
        ):
            before = bytes_read()
            seconds, values = timed(read)
            results[kind] = bytes_read() - before
            assert np.array_equal(values, layers[6])
            shown = f"{seconds:.3f} s, {results[kind] / 1e6:.0f} MB from disk"
            print(f"{kind}: {shown}, for {values.nbytes / 1e6:.0f} MB of states")
    size = n * d * 4
    return 0 < results["one file per layer"] <= 1.05 * size


# ---- bfloat16 on disk


def measure_bfloat16(everything: bool) -> bool:
    from data_gen import build_dataset
    from probing.models.pretrained import load_model
    from probing.probes.by_layer import probe_states
    from probing.probes.splits import read_splits
    from probing.sentences import at_most

    model, tokenizer = load_model("minilm")
    dataset = at_most(build_dataset("sentiment-wide"), 1500 if everything else 400)
    probes, layers = ("summary", "mean", "value", "location", "reader"), [1, 3, 5]
    tables = {}
    with tempfile.TemporaryDirectory() as name:
        for dtype in ("float32", "bfloat16"):
            folder = Path(name) / dtype
            stored: dict[str, Any] = {"folder": folder, "storage_dtype": dtype}
            states = read_splits(model, tokenizer, dataset, probes=probes, layers=layers, **stored)
            size = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
            table = probe_states(states, probes=probes, C=0.01)
            tables[dtype] = table.set_index(["probe", "layer", "split"])["accuracy"]
            print(f"{dtype}: {size / 1e6:.0f} MB on disk")
    wide = {dtype: table.unstack("split")[list(JUDGED)] for dtype, table in tables.items()}
    for key in wide["float32"].index:
        pairs = zip(*(wide[dtype].loc[key] for dtype in wide), strict=True)
        shown = "  ".join(f"{a:.3f} {b:.3f}" for a, b in pairs)
        print(f"{key[0]:<9} layer {key[1]}  (float32 bfloat16) {shown}")
    apart = (tables["float32"] - tables["bfloat16"]).abs()
    print(f"largest difference of an accuracy: {apart.max():.4f}; mean {apart.mean():.5f}")
    return bool(apart.mean() < 0.005)


# ---- twelve layers of 768


def measure_twelve(everything: bool) -> bool:
    measured = inside("twelve", 0 if everything else 300)
    print(
        f"{measured['model']}: {measured['sentences']} sentences in {measured['seconds']:.0f} s, "
        f"{measured['mb']:.0f} MB on disk, peak memory {measured['peak_mib']:.0f} MiB "
        "(target: 2048)"
    )
    return bool(measured["peak_mib"] < 2048)


def inside_twelve(n: int) -> dict[str, Any]:
    from data_gen import build_dataset
    from probing.models.downloads import is_downloaded
    from probing.models.pretrained import load_model
    from probing.probes.splits import read_splits
    from probing.sentences import at_most

    if is_downloaded("mpnet"):
        name, (model, tokenizer) = "MPNet", load_model("mpnet")
    else:
        from transformers import BertConfig, BertModel

        _, tokenizer = load_model("minilm")  # BERT's vocabulary
        name, model = "BERT-base with random weights", BertModel(BertConfig())
    dataset = build_dataset()
    if n:
        dataset = at_most(dataset, n)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        seconds, _ = timed(lambda: read_splits(model, tokenizer, dataset, folder=folder))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.safetensors"))
    sentences = sum(len(split) for split in dataset.values())
    return {"model": name, "sentences": sentences, "seconds": seconds, "mb": size / 1e6}


if __name__ == "__main__":
    main(sys.argv[1:])
