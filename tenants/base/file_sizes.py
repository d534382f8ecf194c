"""Sizes of files for pages and messages, in powers of ten."""

from typing import Final

NBSP: Final = "\N{NO-BREAK SPACE}"
UNITS: Final = ("KB", "MB", "GB", "TB")


def file_size(size: float | None) -> str:
    """A size in bytes with its unit: 1 byte, 702.7 KB, 5 GB (1 KB is 1,000 bytes)."""
    size = size or 0
    if size < 1000:
        return f"{size:.0f}{NBSP}{'byte' if size == 1 else 'bytes'}"
    scaled = ((size / 1000**power, unit) for power, unit in enumerate(UNITS, start=1))
    number, unit = next((pair for pair in scaled if round(pair[0], 1) < 1000), (size / 1000**4, UNITS[-1]))
    return f"{number:,.1f}".removesuffix(".0") + f"{NBSP}{unit}"
