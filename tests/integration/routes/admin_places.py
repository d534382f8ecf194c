"""What stands for the parameters of the administration's routes: the first row of every model."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from tenants.accounts.models import IdempotentResponse, Tenant
from tenants.usage.models import AnswerDay, LoggedRequest, OmittedRequests
from tests.e2e.world import World
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.models import JobShard
from versiontree.tree.models import Coverage, Evaluation


def in_the_administration(world: World) -> dict[str, object]:
    """Keys of rows that are there, and of some that are made for it."""
    _made(world)
    firsts = {model: model._base_manager.order_by("pk")[0].pk for model in admin.site._registry}
    rows = {f"{model._meta.model_name}/object_id": key for model, key in firsts.items()}
    return rows | {
        "user/id": world.owner.pk,
        "r/content_type_id": ContentType.objects.get_for_model(Tenant).pk,
        "object_id": world.tenant.pk,
        "worker": "absent",
        "command": "drain",
        "app_label": "accounts",
        "url": "absent",
    }


def _made(world: World) -> None:
    """What else there would be nothing of."""
    tenant, version = world.tenant, world.hplm
    made = version.artifact_links.earliest("pk").artifact
    IdempotentResponse.unscoped.create(
        tenant=tenant, key_digest="a" * 64, fingerprint="b" * 64, status=201, encrypted_response=""
    )
    Coverage.unscoped.create(tenant=tenant, dataset=world.dataset, version=world.domain)
    Evaluation.unscoped.create(
        tenant=tenant, version=version, artifact=made, test_sha256="a" * 64, dataset_name="d"
    )
    now = timezone.now()
    LoggedRequest.unscoped.create(tenant=tenant, at=now, request_id="r", api="infer", status=200)
    OmittedRequests.unscoped.create(tenant=tenant, hour=now, requests=1)
    AnswerDay.unscoped.create(tenant=tenant, model_name="triage", version=1, day=timezone.localdate())
    JobShard.objects.create(job=jobs_in_order(version)[0], stage="count", number=0, input_range=[0, 10])
    Group.objects.create(name="people")
    EmailAddress.objects.create(user=world.owner, email="olga@example.org", verified=False, primary=False)
    Authenticator.objects.create(user=world.owner, type="totp", data={})
    AccessAttempt.objects.create(username="x", ip_address="192.0.2.1", failures_since_start=1)
