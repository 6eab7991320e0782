"""The error of everything that loads a model, and how a library's error becomes its one line."""

from data_gen.quoting import one_line


class ModelError(ValueError):
    """A model that cannot be loaded; the message is one line that says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def reason(error: BaseException) -> str:
    """The first line of a library's error; where the library begins a list, its first item, too.

    Messages that say little without it (of a KeyError: the key) begin with the name of their type.
    """
    lines = [line.strip() for line in str(error)[:10_000].splitlines() if line.strip()]
    first = " ".join(lines[:2]) if lines and lines[0].endswith(":") else (lines or [""])[0]
    named = isinstance(error, LookupError | AttributeError | TypeError | AssertionError)
    return f"{type(error).__name__} {first}".rstrip() if named or not first else first
