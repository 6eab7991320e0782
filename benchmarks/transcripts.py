"""Gate: what the commands say and write on small inputs, to be compared before and after.

python benchmarks/transcripts.py FOLDER copies benchmarks/inputs to the new FOLDER, runs there what
its commands.txt lists (in about 4 minutes on 2 quiet cores), and keeps in FOLDER/said what they
print, without times, and their exit codes. compare_results.py compares two such folders.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {  # one thread: small inputs gain nothing by more, and these wait for one another
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "COLUMNS": "100",
}


def main(folder: Path) -> None:
    shutil.copytree(ROOT / "benchmarks" / "inputs", folder)
    (folder / "said").mkdir()
    for line in (folder / "commands.txt").read_text().splitlines():
        name, command = line.split(": ", 1)
        print(name, flush=True)
        (folder / "said" / f"{name}.txt").write_text(transcript(command, folder))


def transcript(command: str, folder: Path) -> str:
    words = [sys.executable, *command.replace("ROOT", str(ROOT)).split()]
    environment = os.environ | ENVIRONMENT
    run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    said = f"{run.stdout}{run.stderr}exit code {run.returncode}\n".replace(str(ROOT), "ROOT")
    return re.sub(r"\d+(\.\d+)? (ms|s|min)\b", "(time)", said)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).resolve())
