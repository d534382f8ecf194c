"""Tenants that share a dataset: how many each dataset has, and the rows of each (paper section 7.1)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from workers.training.datasets import DatasetFiles


def tenant_counts(rows: Mapping[str, int], tenants: int) -> dict[str, int]:
    """The number of tenants of each dataset, of so many in all: in proportion to its training rows, rounded
    down (equation 4)."""
    total = sum(rows.values())
    return {name: count * tenants // total for name, count in rows.items()}


def subset_size(rows: int, tenants: int) -> int:
    """The training rows of each of a dataset's tenants (equation 5), rounded to a whole number."""
    return round(rows / tenants)


@dataclass(frozen=True, slots=True)
class Subset:
    """The training rows of one tenant: `size` of the dataset's, drawn with replacement (equation 5)."""

    size: int
    tenant: int

    def files(self, whole: DatasetFiles, folder: Path) -> DatasetFiles:
        """The dataset's files with the tenant's rows for training, written once into `folder`.

        Rows with fewer than two labels teach nothing, so such a tenant draws again. Raises ValueError if the
        dataset itself has fewer, or for a size below two.
        """
        drawn = folder / f"{self.size}-{self.tenant}.jsonl"
        if not drawn.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            partial = drawn.with_suffix(".partial")
            partial.write_text("".join(self._draw(whole.train)), encoding="utf-8")
            partial.replace(drawn)
        return replace(whole, train=drawn)

    def _draw(self, train: Path) -> list[str]:
        with train.open(encoding="utf-8") as file:
            lines = list(file)
        if self.size < 2 or len(set(map(_answer, lines))) < 2:
            raise ValueError(f"{self.size} rows of {train} cannot have two labels")
        rng = np.random.default_rng([self.size, self.tenant])
        while True:
            found = [lines[at] for at in rng.integers(len(lines), size=self.size)]
            if len(set(map(_answer, found))) > 1:
                return found


def _answer(line: str) -> str:
    """What a row says of its text."""
    row = json.loads(line)
    return json.dumps(row.get("tags", row.get("label", row.get("value"))))
