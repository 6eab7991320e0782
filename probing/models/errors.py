"""The error of everything that loads a model, and how a library's error becomes its one line."""

LONGEST = 300  # characters of a message


class ModelError(ValueError):
    """A model that cannot be loaded; the message is one line that says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text as one printable line: of a long text its start, its end and what was left out.

    >>> one_line("a long value, quoted in a message", longest=60)
    """
    sample = text if len(text) < 20_000 else text[:10_000] + text[-10_000:]
    line = " ".join("".join(c if c.isprintable() else " " for c in sample).split())
    if len(line) <= longest:
        return line
    start = 2 * longest // 3 - 20
    end = longest - start - 40
    left_out = len(text) - start - end
    return f"{line[:start]} ... ({left_out} characters) ... {line[-end:]}"


def reason(error: BaseException) -> str:
    """The first line of a library's error; where the library begins a list, its first item, too.

    Messages that say little without it (of a KeyError: the key) begin with the name of their type.
    """
    lines = [line.strip() for line in str(error)[:10_000].splitlines() if line.strip()]
    first = " ".join(lines[:2]) if lines and lines[0].endswith(":") else (lines or [""])[0]
    named = isinstance(error, LookupError | AttributeError | TypeError | AssertionError)
    return f"{type(error).__name__} {first}".rstrip() if named or not first else first
