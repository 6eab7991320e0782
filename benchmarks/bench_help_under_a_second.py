"""Claim: every script answers --help in under a second."""

import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = Path(__file__).parent.parent / "scripts"

for script in sorted(SCRIPTS.glob("*.py")):
    if "__main__" in script.read_text():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            command = [sys.executable, str(script), "--help"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        print(f"{script.name:24} {min(times):.2f} s (slowest of 5: {max(times):.2f} s)")
