"""Processes that end with the program that started them, even if that was killed.

Linux could send a signal (PR_SET_PDEATHSIG), but sends it when the *thread* that started the
process ends, and loky starts workers from threads. So a thread watches the parent, on every POSIX
system; for this thread to run, no function may hold Python's lock for seconds (slr/compiled.py).
"""

import os
import sys
import threading
import time
from collections.abc import Sequence

INTERVAL = 0.2  # seconds between two looks at the parent


def end_with(parent: int) -> None:
    """End this process when its parent is gone, or at once if it is gone already."""

    def watch() -> None:
        while os.getppid() == parent:  # an orphan has another parent
            time.sleep(INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def module_command(module: str, arguments: Sequence[str]) -> list[str]:
    """A command like `python -m MODULE ...` whose process ends with this one."""
    code = (
        f"from slr.workers.lifetime import end_with; end_with({os.getpid()}); import runpy; "
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", code, *arguments]
