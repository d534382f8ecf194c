"""An administrator opens the pages of a tenant, read-only."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tests.e2e.world import World

HOME = reverse("frontend:home", args=["acme"])
LEAVE = reverse("frontend:tenant_view_leave")


def open_pages(client: Client, world: World, user: User) -> str:
    """Press the button on the tenant's page of the administration; returns the address it leads to."""
    client.force_login(user)
    pk = world.tenant.pk
    sent = {"action": "open_pages", "_selected_action": [pk], "return_to": pk}
    answer = client.post(reverse("admin:accounts_tenant_changelist"), sent)
    return str(answer.headers.get("Location", answer.status_code))


def recorded(world: World) -> list[tuple[str, str, str]]:
    """The events of views in the tenant's audit log, oldest first: verb, actor, reason."""
    events = AuditEvent.objects.for_tenant(world.tenant).filter(verb__startswith="tenant.view").order_by("pk")
    return [(one.verb, str(one.actor), one.detail.get("reason", "")) for one in events]


def test_administrator_reads_pages_under_a_banner_until_leaving(client: Client, world: World) -> None:
    assert open_pages(client, world, world.admin) == HOME
    for name in ("home", "models", "data", "jobs", "usage", "members", "requests"):
        page = client.get(reverse(f"frontend:{name}", args=["acme"]))
        assert page.status_code == 200, name
        assert "You are viewing the pages of Acme Pharmacy as an administrator." in page.content.decode()
    assert client.get(reverse("frontend:home", args=["umbra"])).status_code == 404
    left = client.post(LEAVE)
    assert left["Location"] == reverse("admin:accounts_tenant_change", args=[world.tenant.pk])
    assert client.get(HOME).status_code == 404
    assert recorded(world) == [
        ("tenant.view_start", "admin", ""),
        ("tenant.view_end", "admin", "left"),
    ]


def test_view_refuses_every_write_even_to_an_administrator_who_owns_the_tenant(
    client: Client, world: World
) -> None:
    world.owner.is_staff = world.owner.is_superuser = True
    world.owner.save()
    open_pages(client, world, world.owner)
    for name, arguments in (
        ("model_delete", ["triage"]),
        ("key_create", []),
        ("dataset_sample", []),
        ("playground_send", []),
        ("member_leave", []),
    ):
        refused = client.post(reverse(f"frontend:{name}", args=["acme", *arguments]))
        assert (refused.status_code, "cannot change anything" in refused.content.decode()) == (403, True), (
            name
        )
    export = reverse("frontend:version_export", args=["acme", world.hplm.pk])
    assert client.get(export).status_code == 403
    client.post(LEAVE)
    assert client.post(reverse("frontend:model_delete", args=["acme", "triage"])).status_code == 302


def test_view_ends_after_an_hour_and_at_sign_out(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_pages(client, world, world.admin)
    client.post(reverse("account_logout"))
    open_pages(client, world, world.admin)
    later = timezone.now() + timedelta(hours=1, seconds=1)
    monkeypatch.setattr(timezone, "now", lambda: later)
    ended = client.get(HOME)
    assert (ended.status_code, "has ended" in ended.content.decode()) == (403, True)
    assert client.get(HOME).status_code == 404
    assert [reason for verb, _, reason in recorded(world) if verb == "tenant.view_end"] == [
        "signed out",
        "expired",
    ]


def test_staff_who_may_not_change_tenants_cannot_open_one(client: Client, world: World) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    assert open_pages(client, world, clerk) == "403"
    assert recorded(world) == []
