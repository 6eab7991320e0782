"""The figures of results as pictures of a page: PNG files, made smaller."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def read_picture(path: Path) -> Image:
    """The picture in a file."""
    from PIL import Image

    with Image.open(path) as image:
        image.load()
        return image


def scaled_down(image: Image, width: int) -> Image:
    """The picture with at most so many pixels in a row."""
    from PIL import Image

    if image.width <= width:
        return image
    height = max(1, round(image.height * width / image.width))
    return image.resize((width, height), Image.Resampling.LANCZOS)


def small_png(image: Image, width: int) -> bytes:
    """The picture for a web page, as PNG: fewer pixels, and 256 colours."""
    from PIL import Image

    rgb = scaled_down(image.convert("RGB"), width)
    # Colours are spread over all that occur: by default those of small markers would be lost.
    return as_png(rgb.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE))


def as_png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
