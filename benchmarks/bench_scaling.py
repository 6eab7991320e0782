"""Claim: one layer costs one layer, bfloat16 half of the space, and twelve layers fit in memory.

layer     Seconds and bytes from disk to read one layer of twelve, beside the first version's layout
          (one file, in which the layers of a sentence lie side by side). Target: no byte twice.
bfloat16  Bytes on disk and accuracies of probes on MiniLM, beside float32.
twelve    Peak memory of extracting all splits of `sentiment` with a model of 12 layers x 768 (MPNet
          if it is downloaded, else BERT-base with random weights). Target: under 2 GiB.

`bench_scaling.py` runs all parts on few sentences, `bench_scaling.py layer --all` one part on as
many as its claim names, or all data. A target that is missed gives exit code 1.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("layer", "bfloat16", "twelve")
JUDGED = ("test", "ood_tokens", "ood_structure", "ood_structure_tokens")


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


def inside(part: str, n: int) -> dict[str, Any]:
    """The result of a part in a fresh process, with its peak memory."""
    command = [sys.executable, __file__, "--inside", part, str(n)]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    output = subprocess.run(command, check=True, **options).stdout
    return dict(json.loads(output.splitlines()[-1]))


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


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
