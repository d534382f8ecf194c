"""A row of one tenant in every table that has a wall."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db import models
from django.utils import timezone

from demo.record.models import DemoPart
from inference.batches.models import Batch
from tenants.accounts.models import IdempotentResponse, Invitation
from tenants.accounts.services.api_keys import api_key_create
from tenants.base.row_security import PLATFORM_MODELS, TENANT_PATHS, model_policies
from tenants.datasets.models import CheckKind, File, FilePurpose, Upload, UploadCheck
from tenants.usage.models import AnswerDay, LoggedRequest, OmittedRequests
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from tests.e2e.world import World
from versiontree.jobs.models import Job, JobShard
from versiontree.tree.models import Coverage, Domain, Evaluation, FineTuning, VersionArtifact

SHA = "a" * 64


def protected() -> list[type[models.Model]]:
    """The models with a wall, but those that are all the platform's."""
    return [
        model
        for model in apps.get_models()
        if model_policies(model) is not None and model._meta.label not in PLATFORM_MODELS
    ]


def rows_of(model: type[models.Model], tenant: models.Model) -> models.QuerySet[Any]:
    """The tenant's rows, found without policies; not the platform's."""
    path = TENANT_PATHS.get(model._meta.label)
    if path is None:
        scoped: Any = next(each for each in model._meta.managers if hasattr(each, "for_tenant"))
        rows: models.QuerySet[Any] = scoped.for_tenant(tenant)
        return rows
    return model._base_manager.filter(**{path or "pk": tenant.pk})


def fill(world: World) -> None:
    """What the world of the pages lacks."""
    tenant, owner, soon = world.tenant, world.owner, timezone.now() + timedelta(hours=1)
    api_key_create(tenant=tenant, name="a key", scopes=["infer"], created_by=owner)
    endpoint, _ = webhook_create(tenant=tenant, url="https://example.org/", kinds=["job.failed"], actor=owner)
    webhook_test(endpoint=endpoint, actor=owner)
    job = Job.unscoped.filter(version=world.hplm).earliest("created_at")
    link = VersionArtifact.unscoped.filter(version=world.hplm).earliest("pk")
    mine: dict[str, Any] = {"tenant": tenant, "created_by": owner}
    Upload.unscoped.create(**mine, filename="a.txt", size_bytes=1, expires_at=soon)
    File.unscoped.create(**mine, purpose=FilePurpose.BATCH, filename="b", sha256=SHA, size_bytes=1)
    FineTuning.unscoped.create(**mine, model="minilm", parent=world.root, name="mine", training_file=uuid4())
    Batch.unscoped.create(**mine, filename="b", expires_at=soon)
    UploadCheck.unscoped.create(**mine, kind=CheckKind.CORPUS, store=False, size_bytes=1)
    IdempotentResponse.unscoped.create(
        tenant=tenant, key_digest=SHA, fingerprint=SHA, status=201, encrypted_response=""
    )
    Invitation.unscoped.create(
        tenant=tenant, email="new@example.org", role="viewer", token_hash=SHA, expires_at=soon
    )
    Coverage.unscoped.create(tenant=tenant, corpus=world.corpus, version=world.domain)
    Evaluation.unscoped.create(
        tenant=tenant, version=world.hplm, artifact=link.artifact, test_sha256=SHA, dataset_name="Tickets"
    )
    LoggedRequest.unscoped.create(tenant=tenant, at=soon, request_id="mine", api="infer", status=200)
    OmittedRequests.unscoped.create(tenant=tenant, hour=soon, requests=1)
    AnswerDay.unscoped.create(tenant=tenant, model_name="mine", version=1, day=timezone.localdate())
    Domain.unscoped.create(root=world.root.root, tenant=tenant, name="pharmacy")
    DemoPart.unscoped.create(name="example/mine", version=1, tenant=tenant, made_at=soon)
    JobShard.objects.create(job=job, stage="count", number=0, input_range=[0, 1])
