"""What a domain gains: models on it beside models on its root that learned from the same dataset."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import OuterRef, Subquery
from django.db.models.fields.json import KT

from tenants.accounts.models import Tenant
from versiontree.tree.models import Domain, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.promotion import LOWER_IS_BETTER

READ: Final = 2_000
"""The newest versions that are compared."""


@dataclass(frozen=True, slots=True)
class DomainGain:
    """The best test metrics of versions that learned from one dataset, on the domain and on its root."""

    dataset_id: int
    dataset: str
    metric: str
    on_domain: float
    on_root: float

    @property
    def difference(self) -> float:
        """The metric on the domain less that on the root."""
        return self.on_domain - self.on_root

    @property
    def is_gain(self) -> bool:
        """Whether the domain is better."""
        return self.difference < 0 if self.metric in LOWER_IS_BETTER else self.difference > 0


def domain_gains(tenant: Tenant, domain: Domain) -> list[DomainGain]:
    """Compare the tenant's models on the domain and on its root, by dataset and metric. One query."""
    first = Version.objects.for_tenant(tenant).filter(hplm=OuterRef("hplm"), number=1)
    rows = (
        Version.objects.for_tenant(tenant)
        .filter(kind=VersionKind.HPLM, state=VersionState.READY, root=domain.root_id, dataset__isnull=False)
        .filter(hplm__deleted_at=None)
        .annotate(
            branch=Subquery(first.values("parent__domain")[:1]),
            metric=KT("metrics__evaluate__metric"),
            value=KT("metrics__evaluate__value"),
            quick=KT("config__quick"),
        )
        .filter(value__isnull=False)
        .order_by("-pk")
        .values("dataset_id", "dataset__name", "branch", "metric", "value", "quick")[:READ]
    )
    trained: list[dict[str, Any]] = [dict(row) for row in rows if row["quick"] != "true"]
    return sorted(_compared(trained, domain.pk), key=lambda gain: gain.dataset)


def _compared(rows: Iterable[dict[str, Any]], domain_id: int) -> Iterable[DomainGain]:
    best: dict[tuple[int, str, str], dict[int | None, float]] = {}
    for row in rows:
        values = best.setdefault((row["dataset_id"], row["dataset__name"], row["metric"]), {})
        choose = min if row["metric"] in LOWER_IS_BETTER else max
        value = float(row["value"])
        values[row["branch"]] = choose(value, values.get(row["branch"], value))
    for (dataset_id, dataset, metric), values in best.items():
        if domain_id in values and None in values:
            yield DomainGain(dataset_id, dataset, metric, values[domain_id], values[None])
