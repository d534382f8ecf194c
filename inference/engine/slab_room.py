"""How much of which disk slabs may take."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SlabRoom:
    """So many bytes of files under ``folder``, which outlive the worker."""

    folder: Path
    bytes: int
