"""What a domain is good for: models on it, what they gain, and its size."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.presenters.formatting import metric_difference, metric_label, metric_value
from frontend.presenters.pretraining import TableRow
from versiontree.tree.selectors.domain_gains import DomainGain


@dataclass(frozen=True, slots=True)
class GainRow:
    """A dataset with the best metric on the domain and on its root, formatted."""

    dataset_id: int
    dataset: str
    metric: str
    on_domain: str
    on_root: str
    difference: str
    is_gain: bool


def gain_rows(gains: Sequence[DomainGain]) -> list[GainRow]:
    """Return the rows of the comparison, in the given order."""
    return [
        GainRow(
            gain.dataset_id,
            gain.dataset,
            metric_label(gain.metric),
            metric_value(gain.metric, gain.on_domain),
            metric_value(gain.metric, gain.on_root),
            metric_difference(gain.metric, gain.difference),
            gain.is_gain,
        )
        for gain in gains
    ]


def domain_size(tables: Sequence[TableRow]) -> int:
    """Return the size of the domain's own lookup tables, in bytes."""
    return sum(table.bytes for table in tables if table.of_domain)
