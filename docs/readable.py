"""An extension of griffe, which reads our code for the reference: docstrings as pages need them."""

import re
from typing import Any

from griffe import Class, Extension, Module, Object


class Readable(Extension):
    """Docstrings become markdown, and what the signature of a class says is not said again."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        drop_parameters(pkg)


def as_markdown(docstring: str) -> str:
    """The docstring with the stars of k* and v* escaped, and a heading before its examples."""
    text, *examples = re.split(r"^(?=>>> )", docstring, maxsplit=1, flags=re.MULTILINE)
    text = re.sub(r"(``?)(.+?)\1|\*", lambda part: r"\*" if part[0] == "*" else part[0], text)
    return "Examples\n--------\n".join([text, *examples])


def drop_parameters(scope: Module | Class) -> None:
    """Drop attributes without a docstring that are parameters of the constructor."""
    constructor = scope.members.get("__init__") if isinstance(scope, Class) else None
    shown = {each.name for each in constructor.parameters} if constructor else set()
    for name, member in list(scope.members.items()):
        if isinstance(member, Module | Class):
            drop_parameters(member)
        elif name in shown and not member.has_docstring:
            scope.del_member(name)
