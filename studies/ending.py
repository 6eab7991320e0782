"""How a command ends: with one line that says why, or quietly where its output is read no more."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from data_gen.quoting import one_line

CLOSED_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1  # as shells report it
INTERRUPTED = 130


@contextmanager
def ending(*, last: bool) -> Iterator[None]:
    """Run a command; bad input and Ctrl-C end it with one line, and a closed pipe without any.

    Bad input is a ValueError or an OSError. Any other exception is a bug and shows its traceback;
    with SLR_TRACEBACK=1 in the environment every exception does. ``last``: the program ends then.
    """
    try:
        try:
            _write_anything()
            yield
            _flush()
        except SystemExit:  # as --help ends
            _flush()
            raise
        except _bad_input() as error:
            if os.environ.get("SLR_TRACEBACK") not in (None, "", "0") or _is_closed(error):
                raise
            fail(_reason(error))
        except KeyboardInterrupt:
            fail("interrupted; nothing was left half-written", code=INTERRUPTED)
    except BrokenPipeError as error:
        if not _is_closed(error):
            raise
        # Whoever read the output wants no more of it (`| head`): stop, as other commands do. What
        # was being made is absent, what was finished is whole: results are not made by printing.
        _drop_output(sys.stdout, sys.stderr)
        raise SystemExit(CLOSED_PIPE) from None
    finally:
        if last:  # Ctrl-C while the interpreter winds up ends it without a traceback
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def fail(message: str, code: int = 2) -> NoReturn:
    """End the program with an error line."""
    print(one_line(f"error: {message}"), file=sys.stderr, flush=True)
    raise SystemExit(code)


def _bad_input() -> tuple[type[Exception], ...]:
    """The errors that are no bugs; that of the library that writes weights means a full disk."""
    library = sys.modules.get("safetensors")
    return ValueError, OSError, *([library.SafetensorError] if library else [])


def _reason(error: BaseException) -> str:
    """What an error says, without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error)


def _write_anything() -> None:
    """Let output escape what the terminal cannot write, such as the name of a folder."""
    if sys.stdout is None:  # as after `>&-`: libraries expect one
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    with suppress(AttributeError):  # a stream of a test
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _flush() -> None:
    """Write all output now: when the interpreter does, it is too late for one line."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:  # a full disk
        _drop_output(sys.stdout)
        raise


def _is_closed(error: BaseException) -> bool:
    """Whether an error is that of a closed output: a socket of a cluster may break as well."""
    if not isinstance(error, BrokenPipeError) or not hasattr(select, "poll"):
        return isinstance(error, BrokenPipeError)
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a stream without a file, or none
            poll.register(stream.fileno(), select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _drop_output(*streams: Any) -> None:
    """Send what is left to nowhere: the interpreter writes it when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):  # a stream without a file, or none
            os.dup2(nowhere, stream.fileno())
