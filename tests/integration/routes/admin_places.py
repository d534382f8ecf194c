"""What stands for the parameters of the administration's routes: the first row of every model."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.usage.models import LoggedRequest
from tests.e2e.world import World


def in_the_administration(world: World) -> dict[str, object]:
    """Keys of rows that its lists show, some of them made for it."""
    _made(world)
    shown = {model: site.get_queryset(HttpRequest()) for model, site in admin.site._registry.items()}
    firsts = {model: rows.order_by("pk")[0].pk for model, rows in shown.items()}
    rows = {f"{model._meta.model_name}/object_id": key for model, key in firsts.items()}
    return rows | {
        "user/id": world.owner.pk,
        "r/content_type_id": ContentType.objects.get_for_model(Tenant).pk,
        "object_id": world.tenant.pk,
        "worker": "absent",
        "command": "drain",
        "goal": "removed",
        "app_label": "accounts",
        "url": "absent",
    }


def _made(world: World) -> None:
    """What else there would be nothing of."""
    LoggedRequest.unscoped.create(
        tenant=world.tenant, at=timezone.now(), request_id="r", api="infer", status=200
    )
    Group.objects.create(name="people")
    EmailAddress.objects.create(user=world.owner, email="olga@example.org", verified=False, primary=False)
    Authenticator.objects.create(user=world.owner, type="totp", data={})
    AccessAttempt.objects.create(username="x", ip_address="192.0.2.1", failures_since_start=1)
