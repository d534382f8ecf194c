"""Tenant scope fails closed, and the database refuses what no code should write."""

from itertools import product
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, transaction

from tenants.accounts.models import ApiKey, Membership, Tenant
from tenants.audit.models import AuditEvent
from tenants.base.managers import TenantScopedManager, UnscopedQuery
from tenants.datasets.models import Corpus, Dataset, DatasetSplit
from tenants.usage.models import (
    Quota,
    UsageDay,
)
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_platform_scope")

OWNED: list[Any] = [
    model for model in apps.get_models() if isinstance(getattr(model, "objects", None), TenantScopedManager)
]
SHA = "a" * 64


def test_a_query_that_names_no_tenant_raises() -> None:
    for model, ask in product(OWNED, ("all", "get", "exists", "filter", "create")):
        with pytest.raises(UnscopedQuery):
            getattr(model.objects, ask)()
    for model, tenant in product(OWNED, (None, Tenant(slug="unsaved"))):
        with pytest.raises(UnscopedQuery):
            model.objects.for_tenant(tenant)


def test_a_tenant_sees_its_own_rows_only(world: World) -> None:
    assert set(Membership.objects.for_tenant(world.other).values_list("user__username", flat=True)) == {
        "stranger"
    }
    for tenant in (world.tenant, world.other, None):
        Corpus.unscoped.create(tenant=tenant, name="c", sha256=SHA, size_bytes=1, rows=1, words=1)
    assert [corpus.tenant for corpus in Corpus.objects.for_tenant(world.tenant)] == [world.tenant]


CORPUS = {"name": "c", "sha256": SHA, "size_bytes": 1, "rows": 1, "words": 1}
DATASET = {"name": "d", "task": "tagging", "labels": ["x"]}


NONSENSE: list[tuple[Any, dict[str, Any]]] = [
    (Tenant, {"slug": "Not Plain", "name": "x"}),
    (Tenant, {"slug": "x", "name": ""}),
    (Membership, {"role": "emperor"}),
    (Membership, {"role": "owner"}),
    (Quota, {}),
    (Quota, {"max_domains": -1}),
    (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": []}),
    (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": ["infer", "root"]}),
    (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": "infer"}),
    (ApiKey, {"id": "1", "prefix": "2", "name": "k", "scopes": ["infer"]}),
    (Corpus, {**CORPUS, "sha256": "A" * 64}),
    (Corpus, {**CORPUS, "rows": 0}),
    (Corpus, {**CORPUS, "size_bytes": 0}),
    (Corpus, {**CORPUS, "name": " c"}),
    (Corpus, {**CORPUS, "name": ""}),
    (Dataset, {**DATASET, "task": "translation"}),
    (Dataset, {**DATASET, "labels": []}),
    (Dataset, {**DATASET, "labels": {"x": 1}}),
    (UsageDay, {"model_name": "h", "day": "2026-01-01", "requests": 1, "failed": 2}),
    (AuditEvent, {"verb": "", "subject": "x"}),
]


def test_the_database_refuses_nonsense(world: World) -> None:
    for model, fields in NONSENSE:
        owner = {} if model is Tenant else {"tenant": world.tenant}
        user = {"user": world.owner} if model is Membership else {}
        manager = getattr(model, "unscoped", None) or model.objects
        with pytest.raises(IntegrityError), transaction.atomic():
            manager.create(**owner, **user, **fields)


def test_the_database_refuses_a_split_twice(world: World) -> None:
    dataset = Dataset.unscoped.create(tenant=world.tenant, **DATASET)
    fields = {"dataset": dataset, "sha256": SHA, "size_bytes": 1, "rows": 1}
    DatasetSplit.unscoped.create(split="train", **fields)
    for split in ("train", "holdout"):
        with pytest.raises(IntegrityError), transaction.atomic():
            DatasetSplit.unscoped.create(split=split, **fields)


def test_platform_corpora_have_differing_names_too(db: None) -> None:
    Corpus.unscoped.create(tenant=None, **CORPUS)
    with pytest.raises(IntegrityError), transaction.atomic():
        Corpus.unscoped.create(tenant=None, **CORPUS)
