"""The coverage of an upload by lookup tables, and the versions trained on it."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from urllib.parse import urlencode

from django.urls import reverse

from frontend.presenters.charts import ChartPart, level_parts
from frontend.presenters.versions import parent_name
from tenants.accounts.models import Tenant
from tenants.datasets.models import Corpus, Dataset
from versiontree.tree.models import Coverage


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """The coverage of an upload by the tables of a version. `url` is the form that uses it as parent."""

    name: str
    parts: list[ChartPart]
    error_message: str
    url: str
    best: bool


def coverage_rows(
    tenant: Tenant, upload: Corpus | Dataset, measured: Iterable[Coverage]
) -> list[CoverageRow]:
    """Return a row per version, best coverage first."""
    ranked = sorted(measured, key=attrgetter("rank"), reverse=True)
    return [
        _row(tenant, upload, one, best=not place and not one.error_message)
        for place, one in enumerate(ranked)
    ]


def covered_parts(one: Coverage) -> list[ChartPart]:
    """Return the share of the upload's fragments by lookup level."""
    found = {"trigram": one.trigrams, "bigram": one.bigrams, "unigram": one.unigrams}
    return level_parts(found, one.fragments, "{:.1%}")


def _row(tenant: Tenant, upload: Corpus | Dataset, one: Coverage, *, best: bool) -> CoverageRow:
    form, field = ("domain_new", "corpus") if isinstance(upload, Corpus) else ("model_new", "dataset")
    chosen = urlencode({"parent": one.version_id, field: upload.pk})
    return CoverageRow(
        name=parent_name(one.version),
        parts=covered_parts(one),
        error_message=one.error_message,
        url=f"{reverse(f'frontend:{form}', args=[tenant.slug])}?{chosen}",
        best=best,
    )
