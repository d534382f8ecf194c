"""What is written down of who did what, and who may read it."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from tenants.accounts.services.members import member_add, member_set_role
from tenants.accounts.services.tenants import quota_change, tenant_rename
from tenants.audit.models import AuditEvent
from tenants.audit.selectors import AuditFilter, audit_events_of, audit_kinds
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")

AUDIT = "/api/v1/tenants/acme/audit"


def test_an_event_has_the_address_and_the_request_id(world: World) -> None:
    client = world.client(world.owner)
    client.post(
        "/api/v1/tenants/acme/api-keys",
        {"name": "k", "scopes": ["infer"]},
        REMOTE_ADDR="203.0.113.7",
        HTTP_X_REQUEST_ID="make-it",
    )
    told = client.get(f"{AUDIT}?kind=api_key").json()["results"][0]
    assert (told["verb"], told["actor"], told["key"]) == ("api_key.create", "owner", None)
    assert (told["address"], told["request_id"]) == ("203.0.113.7", "make-it")
    quiet = member_set_role(
        membership=member_add(tenant=world.tenant, user=world.staff, role="viewer"), role="owner"
    )
    assert (
        AuditEvent.objects.for_tenant(quiet.tenant).filter(verb="member.set_role").latest("pk").address
        is None
    )


def test_a_new_event_does_not_shift_the_next_page(world: World) -> None:
    for number in range(5):
        tenant_rename(tenant=world.tenant, name=f"Acme {number}", actor=world.owner)
    client = world.client(world.owner)
    first = client.get(f"{AUDIT}?limit=3&kind=tenant.rename").json()
    tenant_rename(tenant=world.tenant, name="Acme again", actor=world.owner)
    second = client.get(first["next"]).json()
    told = [event["detail"]["to"] for page in (first, second) for event in page["results"]]
    assert told == [f"Acme {number}" for number in (4, 3, 2, 1, 0)]


def test_events_are_filtered_by_actor_kind_subject_and_day(world: World) -> None:
    key, _ = world.key()
    tenant_rename(tenant=world.tenant, name="Acme & Sons", actor=world.staff)
    quota_change(tenant=world.tenant, limits={"max_models": 7}, actor=key)

    def found(**wish: object) -> list[str]:
        return [event.verb for event in audit_events_of(world.tenant, AuditFilter(**wish))]  # type: ignore[arg-type]

    assert found(actor="staff") == ["tenant.rename"]
    assert found(actor=key.prefix) == ["quota.change"]
    assert found(kind="quota") == ["quota.change"]
    assert found(kind="ten") == []
    assert "member.add" in found(actor="system")
    assert found(words=key.prefix.upper()) == ["api_key.create"]
    today = datetime.now(UTC).date()
    assert found(until=today - timedelta(days=1)) == []
    assert len(found(since=today, until=today)) == AuditEvent.objects.for_tenant(world.tenant).count()
    assert audit_kinds(world.tenant) == ["api_key", "member", "quota", "tenant"]


def test_a_change_of_the_quota_has_the_old_and_the_new_value(world: World) -> None:
    assert quota_change(tenant=world.tenant, limits={"max_models": 7, "max_domains": 3}, actor=world.staff)
    assert not quota_change(tenant=world.tenant, limits={"max_models": 7}, actor=world.staff)
    event = audit_events_of(world.tenant)[0]
    assert event.detail == {"max_models": {"from": 50, "to": 7}}


CHANGES = [
    "UPDATE audit_auditevent SET subject = 'x' WHERE tenant_id = %s",
    "UPDATE audit_auditevent SET subject = '' WHERE tenant_id = %s",
    "DELETE FROM audit_auditevent WHERE tenant_id = %s",
]


def test_events_are_immutable_also_while_a_tenant_is_deleted(world: World) -> None:
    for change in CHANGES:
        for leaving in ("", str(world.other.pk), str(world.tenant.pk)):
            with pytest.raises(IntegrityError, match="never changed"), transaction.atomic():
                run(leaving, change, world.tenant.pk)


def run(leaving: str, statement: str, tenant_id: int) -> None:
    """A statement in a transaction that says which tenant leaves."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('hmi.deleted_tenant', %s, true)", [leaving])
        cursor.execute(statement, [tenant_id])
