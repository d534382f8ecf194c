"""How near our encoders come to their own library, family by family."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from torch import Tensor

from benchmarks import harness
from tests.unit.family_parity import FLAGS, states

CLOSE: Final = 1e-5
"""The largest gap between two states that counts as none, beside 1 + the state's size (fp32)."""


def rows() -> list[harness.Row]:
    """Of random checkpoints of each family and flag, the largest gap to the states of transformers."""
    with TemporaryDirectory() as folder:
        return [
            {
                "checkpoint": name,
                "family": family,
                "largest gap, millionths": 1e6 * max(_gaps(name, Path(folder, str(number)))),
            }
            for number, (name, (family, _)) in enumerate(FLAGS.items())
        ]


def figures(found: list[harness.Row]) -> dict[str, float]:
    """families: those without a gap. parity_failures: checkpoints with one."""
    failed = [row["family"] for row in found if not row["largest gap, millionths"] <= 1e6 * CLOSE]
    families = {row["family"] for row in found} - set(failed)
    return {"families": float(len(families)), "parity_failures": float(len(failed))}


def _gaps(name: str, folder: Path) -> Iterator[float]:
    for found, wanted in states(name, folder):
        yield _gap(found, wanted)


def _gap(found: Tensor, wanted: Tensor) -> float:
    return float(((found - wanted).abs() / (1 + wanted.abs())).max())
