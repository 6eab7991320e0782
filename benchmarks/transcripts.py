"""Gate: what the commands say and write on small inputs, to be compared before and after.

python benchmarks/transcripts.py FOLDER runs all commands in the new FOLDER, where their files stay,
and keeps what they print, without times, and their exit codes in FOLDER/said. compare_results.py
compares two such folders.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "generate": "generate_data.py --spec kettles.toml --output data",
    "train": "train_transformer.py --spec kettles.toml --epochs 8 --snapshots --output model",
    "train-again": "train_transformer.py --spec kettles.toml --epochs 8 --snapshots --output model",
    "train-decoder": "train_transformer.py --spec kettles.toml --architecture llama --output llama",
    "extract": "extract.py --model model --data kettles.toml --output states",
    "probe": "probe.py --model model --data kettles.toml --states states --output probes",
    "apply": "apply.py --probe probes/saved/reader --data kettles.csv --output applied.csv",
    "sparsity": "sparsity.py --model model --data kettles.toml --output sparsity",
    "other-settings": "sparsity.py --model model --data kettles.toml --seed 1 --output sparsity",
    "controls": "controls.py --model model --data kettles.toml --draws 1 --output controls",
    "causal": "causal.py --model model --data kettles.toml --random 1 --output causal",
    "causal-decoder": "causal.py --model llama --data kettles.toml --random 1 --output causal-2",
    "doctor": "doctor.py --model model --data kettles.toml",
    "doctor-own": "doctor.py --model minilm --data kettles.csv",
    "probe-own": "probe.py --data kettles.csv --layers 0 3 --output probes-own",
    "sparsity-own": "sparsity.py --model minilm --data kettles.csv --output sparsity-own",
    "causal-own": "causal.py --data kettles.csv --layers 3 --random 1 --output causal-own",
    "paper": "run_slr.py paper --smoke --output slr",
    "sweep": "run_slr.py sweep --grid grid.toml --output slr/sweep",
    "wrong-model": "probe.py --model nowhere --data kettles.csv",
    "wrong-row": "doctor.py --model model --data twice.csv",
    "wrong-option": "sparsity.py --modl model",
}
NOTEBOOKS = ("01_the_dataset", "04_single_location_regression", "05_your_own")
SHOWN = "-m nbconvert --execute --to markdown --stdout --no-input"
ENVIRONMENT = {  # one thread: small inputs gain nothing by more, and these wait for one another
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "100",
}


def main(folder: Path) -> None:
    shutil.copytree(Path(__file__).parent / "inputs", folder)
    (folder / "said").mkdir()
    commands = {name: f"{ROOT}/scripts/{command}" for name, command in COMMANDS.items()}
    commands |= {name: f"{SHOWN} {ROOT}/notebooks/{name}.ipynb" for name in NOTEBOOKS}
    for name, command in commands.items():
        print(name, flush=True)
        (folder / "said" / f"{name}.txt").write_text(transcript(command, folder))


def transcript(command: str, folder: Path) -> str:
    words, environment = [sys.executable, *command.split()], os.environ | ENVIRONMENT
    run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    said = f"{run.stdout}{run.stderr}exit code {run.returncode}\n".replace(str(ROOT), "ROOT")
    return re.sub(r"\d+(\.\d+)? (ms|s|min)\b", "(time)", said)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).resolve())
