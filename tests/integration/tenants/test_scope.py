"""Tenant scope fails closed, and the database refuses what no code should write."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from tenants.accounts.models import ApiKey, IdempotentResponse, Invitation, Membership, Tenant
from tenants.audit.models import AuditEvent
from tenants.base.managers import UnscopedQuery
from tenants.datasets.models import Corpus, Dataset, DatasetSplit, File, Upload, UploadCheck
from tenants.usage.models import (
    AnswerDay,
    LoggedRequest,
    OmittedRequests,
    Quota,
    UsageDay,
    UsageSum,
)
from tenants.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_platform_scope")

OWNED = [
    AnswerDay,
    ApiKey,
    AuditEvent,
    Corpus,
    Dataset,
    DatasetSplit,
    File,
    Invitation,
    IdempotentResponse,
    LoggedRequest,
    Membership,
    OmittedRequests,
    Quota,
    Upload,
    UploadCheck,
    UsageDay,
    UsageSum,
    WebhookDelivery,
    WebhookEndpoint,
]
SHA = "a" * 64


@pytest.mark.parametrize("model", OWNED)
@pytest.mark.parametrize(
    "ask", ["all", "count", "first", "get", "exists", "filter", "create", "exclude", "none"]
)
def test_a_query_that_names_no_tenant_raises(model: Any, ask: str) -> None:
    with pytest.raises(UnscopedQuery):
        getattr(model.objects, ask)()


@pytest.mark.parametrize("model", OWNED)
@pytest.mark.parametrize("tenant", [None, Tenant(slug="unsaved")])
def test_no_tenant_is_no_scope(model: Any, tenant: Tenant | None) -> None:
    with pytest.raises(UnscopedQuery):
        model.objects.for_tenant(tenant)


def test_a_tenant_sees_its_own_rows_only(world: World) -> None:
    assert set(Membership.objects.for_tenant(world.other).values_list("user__username", flat=True)) == {
        "stranger"
    }
    for tenant in (world.tenant, world.other, None):
        Corpus.unscoped.create(tenant=tenant, name="c", sha256=SHA, size_bytes=1, rows=1, words=1)
    assert [corpus.tenant for corpus in Corpus.objects.for_tenant(world.tenant)] == [world.tenant]


def test_every_tenant_owned_model_of_the_app_is_scoped() -> None:
    from django.apps import apps

    owned = {
        model
        for app in ("audit", "usage", "accounts", "datasets", "webhooks")
        for model in apps.get_app_config(app).get_models()
        if any(field.related_model is Tenant for field in model._meta.concrete_fields)
    }
    assert owned <= set(OWNED)


CORPUS = {"name": "c", "sha256": SHA, "size_bytes": 1, "rows": 1, "words": 1}
DATASET = {"name": "d", "task": "tagging", "labels": ["x"]}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Tenant, {"slug": "Not Plain", "name": "x"}),
        (Tenant, {"slug": "-x", "name": "x"}),
        (Tenant, {"slug": "x", "name": ""}),
        (Membership, {"role": "emperor"}),
        (Membership, {"role": "owner"}),
        (Quota, {}),
        (Quota, {"max_domains": -1}),
        (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": []}),
        (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": ["infer", "root"]}),
        (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": "infer"}),
        (ApiKey, {"id": "1", "prefix": "1", "name": "k", "scopes": {}}),
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
    ],
)
def test_the_database_refuses_nonsense(world: World, model: Any, fields: dict[str, Any]) -> None:
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


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_auditevent SET verb = 'x'", "DELETE FROM audit_auditevent"]
)
def test_audit_events_never_change(world: World, statement: str) -> None:
    with (
        pytest.raises(IntegrityError, match="never changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
