"""One labelled sentence, with the ground truth of which word decides its label."""

from typing import NamedTuple

INFORMATIVE, DISTRACTOR, NEUTRAL = ROLES = ("informative", "distractor", "neutral")


# A named tuple and not a frozen dataclass: making that would take half of a sentence's 4 us.
class Sentence(NamedTuple):
    """A sentence and what the grammar knows about it.

    Always: ``" ".join(words) == text``, ``roles[location] == "informative"`` and
    ``text[span[0]:span[1]] == words[location]``.
    """

    text: str
    label: int  # index into the spec's labels; for "sentiment" 0 = negative, 1 = positive
    words: tuple[str, ...]
    roles: tuple[str, ...]  # one of ROLES per word
    location: int  # index of the informative word in words (J0 in the paper)
    span: tuple[int, int]  # its character offsets in text
    pattern: str
