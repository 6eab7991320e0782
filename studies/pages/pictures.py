"""The figures of results as pictures of a page: PNG files, made smaller."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from studies.storage.tables import ResultError, reason_of

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST_FILE = 64 * 2**20  # bytes
MOST_PIXELS = 5 * 10**7  # those of 25 MB of black may be 10^10


def read_picture(path: Path) -> Image:
    """The picture of a PNG file; a file that is another or too large is refused."""
    from PIL import Image

    if not path.is_file():
        raise ResultError(f"{path} is {'not a file' if path.exists() else 'missing'}")
    if path.stat().st_size > LARGEST_FILE:
        raise ResultError(f"{path} is too large for a figure: {path.stat().st_size} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we have a limit
            image = Image.open(path, formats=["PNG"])
        with image:
            width, height = image.size
            if width * height <= MOST_PIXELS:
                image.load()
                return image
    except Exception as error:  # a damaged picture makes Pillow raise anything
        raise ResultError(f"{path} is not a PNG picture ({reason_of(error)})") from error
    raise ResultError(f"{path} is too large for a figure: {width} x {height} pixels")


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
