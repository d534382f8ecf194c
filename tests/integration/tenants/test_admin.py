"""The admin pages of this application, as staff use them."""

import re
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.db import IntegrityError, connection, transaction
from django.db.models import Field
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings

from tenants.accounts.authentication import api_key_from
from tenants.accounts.models import ApiKey, Invitation, Membership, Tenant
from tenants.accounts.selectors import membership_of
from tenants.accounts.services.tenants import tenant_set_weight
from tenants.audit.models import AuditEvent
from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Dataset
from tenants.usage.models import Quota
from tenants.usage.selectors import quota_of
from tests.integration.tenants.content import CORPUS, nothing_is_left, put_dataset, stored, upload
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_platform_scope")


@pytest.fixture
def staff(world: World) -> Client:
    client = Client()
    client.force_login(world.staff)
    return client


def quota_fields(**changed: str) -> dict[str, str]:
    """The quota on the form of a new tenant: the defaults, and what is changed."""
    shown = {
        field.name: str(field.default)
        for field in Quota._meta.get_fields()
        if isinstance(field, Field) and field.name.startswith("max_")
    }
    shown["max_storage_bytes"] = "5"  # GB
    counts = {"TOTAL_FORMS": "1", "INITIAL_FORMS": "0"}
    return {f"quota-{count}": number for count, number in counts.items()} | {
        f"quota-0-{name}": value for name, value in (shown | changed).items()
    }


def page(model: Any, name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


def test_a_tenant_made_here_has_a_quota_and_an_audit_event(world: World, staff: Client) -> None:
    answer = staff.post(
        page(Tenant, "add"),
        {
            "slug": "initech",
            "name": "Initech",
            "owner": world.viewer.pk,
            "weight": "1",
            "checks_answers": "on",
            **quota_fields(max_models="7"),
        },
        follow=True,
    )
    assert answer.status_code == 200
    tenant = Tenant.objects.get(slug="initech")
    assert (quota_of(tenant).max_models, quota_of(tenant).max_domains) == (7, 3)
    membership = membership_of(world.viewer, tenant)
    assert membership is not None
    assert membership.role == "owner"
    verbs = AuditEvent.objects.for_tenant(tenant).values_list("verb", "actor__username")
    assert set(verbs) == {("tenant.create", "staff"), ("quota.change", "staff")}


def test_the_owner_of_a_new_tenant_may_be_invited(
    transactional_db: None, world: World, staff: Client, settings: Settings, mailoutbox: list[Any]
) -> None:
    sent = {"slug": "hooli", "name": "Hooli", "weight": "1", **quota_fields()}
    staff.post(page(Tenant, "add"), sent | {"owner_email": "first@example.org"})
    assert [message.to for message in mailoutbox] == [["first@example.org"]]
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    sent |= {"slug": "initech", "name": "Initech"}
    staff.post(page(Tenant, "add"), sent | {"owner_email": "new@example.org"})
    invitation = Invitation.unscoped.get(tenant__slug="initech")
    assert (invitation.email, invitation.role) == ("new@example.org", "owner")
    told = staff.get(page(Tenant, "changelist")).content.decode()
    assert re.search(
        r'Give new@example\.org this link.*id="shown-once">http://testserver/.*data-copy="shown-once">Copy<',
        told,
    )


def test_a_new_tenant_needs_one_owner(world: World, staff: Client) -> None:
    sent = {"slug": "initech", "name": "Initech", "weight": "1", **quota_fields()}
    none = staff.post(page(Tenant, "add"), sent)
    assert none.context["adminform"].form.errors == {"owner": ["Choose a user, or enter an e-mail address."]}
    two = staff.post(page(Tenant, "add"), sent | {"owner": world.viewer.pk, "owner_email": "a@example.org"})
    assert list(two.context["adminform"].form.errors) == ["owner_email"]
    assert not Tenant.objects.filter(slug="initech").exists()


def test_tenants_are_suspended_and_resumed(world: World, staff: Client) -> None:
    for action, suspended in (("suspend", True), ("resume", False)):
        sent = {"action": action, "_selected_action": [world.tenant.pk], "typed_name": "acme"}
        staff.post(page(Tenant, "changelist"), sent)
        world.tenant.refresh_from_db()
        assert world.tenant.is_suspended is suspended
    verbs = AuditEvent.objects.for_tenant(world.tenant).values_list("verb", "actor__username")
    assert {("tenant.suspend", "staff"), ("tenant.resume", "staff")} <= set(verbs)


def test_nothing_is_suspended_or_deleted_before_its_slug_is_typed(world: World, staff: Client) -> None:
    for action in ("suspend", "delete_data"):
        sent = {"action": action, "_selected_action": [world.tenant.pk], "typed_name": "globex"}
        staff.post(page(Tenant, "changelist"), sent)
    world.tenant.refresh_from_db()
    assert (world.tenant.suspended_at, world.tenant.deletion_requested_at) == (None, None)
    sent |= {"typed_name": "acme"}
    staff.post(page(Tenant, "changelist"), sent)
    world.tenant.refresh_from_db()
    assert world.tenant.deletion_requested_at is not None


def test_a_quota_and_a_name_that_are_changed_here_are_written_down(world: World, staff: Client) -> None:
    staff.post(
        page(Quota, "change", quota_of(world.tenant).pk),
        quota_form(world, max_models="7", max_storage_bytes="2.5"),
    )
    fields = {"name": "Acme & Sons", "weight": "1", "checks_answers": "on"}
    inline = {f"quota-0-{name}": value for name, value in quota_form(world, max_domains="4").items()}
    forms = {
        "quota-TOTAL_FORMS": "1",
        "quota-INITIAL_FORMS": "1",
        "quota-0-id": str(quota_of(world.tenant).pk),
    }
    members = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
    whose = {"quota-0-tenant": str(world.tenant.pk)}
    staff.post(page(Tenant, "change", world.tenant.pk), fields | inline | forms | members | whose)
    quota = quota_of(world.tenant)
    assert (quota.max_models, quota.max_domains) == (7, 4)
    shown = " ".join(staff.get(page(AuditEvent, "changelist")).content.decode().split())
    assert "max storage from 5 GB to 2.5 GB" in shown
    events = AuditEvent.objects.for_tenant(world.tenant).filter(actor=world.staff).order_by("pk")
    assert list(events.values_list("verb", "detail")) == [
        (
            "quota.change",
            {
                "max_models": {"from": 50, "to": 7},
                "max_storage_bytes": {"from": 5_000_000_000, "to": 2_500_000_000},
            },
        ),
        ("tenant.rename", {"from": "Acme", "to": "Acme & Sons"}),
        ("quota.change", {"max_domains": {"from": 3, "to": 4}}),
    ]


def test_the_form_of_a_new_tenant_has_the_default_storage_limit(staff: Client) -> None:
    shown = staff.get(page(Tenant, "add")).content.decode()
    assert re.search(r'name="quota-0-max_storage_bytes"[^>]* value="5"|value="5" name="quota-0-max_s', shown)


def quota_form(world: World, **changed: str) -> dict[str, str]:
    """The fields of the quota as a browser sends them."""
    quota = quota_of(world.tenant)
    names = [field.name for field in Quota._meta.fields if field.name not in ("id", "tenant")]
    now = {name: getattr(quota, name) for name in names}
    now["max_storage_bytes"] /= 1_000_000_000  # in GB
    return {name: "" if value is None else str(value) for name, value in now.items()} | changed


def test_members_are_added_changed_and_removed_with_an_audit_event(world: World, staff: Client) -> None:
    fields = {"tenant": world.tenant.pk, "user": world.stranger.pk, "role": "viewer"}
    staff.post(page(Membership, "add"), fields)
    member = membership_of(world.stranger, world.tenant)
    assert member is not None
    staff.post(page(Membership, "change", member.pk), {"role": "developer"})
    member.refresh_from_db()
    assert member.role == "developer"
    staff.post(page(Membership, "delete", member.pk), {"post": "yes"})
    assert membership_of(world.stranger, world.tenant) is None
    verbs = (
        AuditEvent.objects.for_tenant(world.tenant).filter(actor=world.staff).values_list("verb", flat=True)
    )
    assert list(verbs) == ["member.remove", "member.set_role", "member.add"]


def test_a_key_is_shown_once_and_can_be_revoked(world: World, staff: Client) -> None:
    fields = {
        "tenant": world.tenant.pk,
        "name": "ci",
        "scopes": ["infer"],
        "expiry_date_0": "",
        "expiry_date_1": "",
    }
    shown = staff.post(page(ApiKey, "add"), fields, follow=True).content.decode()
    key = ApiKey.unscoped.get()
    start = shown.index(key.prefix + ".")
    plaintext = shown[start : start + 41]
    assert api_key_from(plaintext) == key
    later = staff.get(page(ApiKey, "change", key.pk)).content.decode()
    assert plaintext not in later
    assert "$$" not in later
    revoking = {"action": "revoke", "_selected_action": [key.pk], "typed_name": str(key)}
    staff.post(page(ApiKey, "changelist"), revoking)
    assert api_key_from(plaintext) is None


def test_a_platform_corpus_is_uploaded_and_deleted(
    world: World, staff: Client, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    fields = {"tenant": "", "name": "books", "file": upload("books.txt", CORPUS)}
    answer = staff.post(page(Corpus, "add"), fields, follow=True)
    assert answer.status_code == 200
    corpus = Corpus.unscoped.get()
    assert (corpus.tenant, corpus.rows, corpus.created_by) == (None, 50, world.staff)
    assert len(stored(upload_root)) == 1
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(page(Corpus, "delete", corpus.pk), {"post": "yes"})
    assert nothing_is_left(upload_root)


def test_a_bad_corpus_is_a_mistake_in_the_form(world: World, staff: Client, upload_root: Path) -> None:
    fields = {"tenant": "", "name": "books", "file": upload("books.txt", b"PK\x03\x04zip")}
    answer = staff.post(page(Corpus, "add"), fields)
    assert answer.status_code == 200
    assert "this is a zip archive" in answer.content.decode()
    assert nothing_is_left(upload_root)


def test_deleting_datasets_in_the_list_takes_their_files(
    world: World, staff: Client, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    dataset = put_dataset(world)
    chosen = {"action": "delete_selected", "_selected_action": [dataset.pk], "post": "yes"}
    staff.post(page(Dataset, "changelist"), chosen)
    assert Dataset.unscoped.exists()
    chosen["typed_name"] = str(dataset)
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(page(Dataset, "changelist"), chosen)
    assert not Dataset.unscoped.exists()
    assert nothing_is_left(upload_root)


def weighed(world: World, staff: Client, weight: str) -> Tenant:
    """The tenant, after staff has typed this weight into its form."""
    inlines = {
        f"{name}-{part}_FORMS": "0" for name in ("quota", "memberships") for part in ("TOTAL", "INITIAL")
    }
    form = {"name": "Acme", "weight": weight, "checks_answers": "on", **inlines}
    staff.post(page(Tenant, "change", world.tenant.pk), form)
    return Tenant.objects.get(pk=world.tenant.pk)


def test_a_weight_is_set_with_an_audit_event(world: World, staff: Client) -> None:
    assert weighed(world, staff, "2.5").weight == 2.5
    event = AuditEvent.objects.for_tenant(world.tenant).get(verb="tenant.set_weight")
    assert (event.actor, event.detail) == (world.staff, {"weight": {"from": 1.0, "to": 2.5}})


def test_a_weight_out_of_range_is_refused_below_the_form_too(world: World) -> None:
    for weight in (-1.0, 0.001, 100.5, float("inf"), float("nan")):
        with pytest.raises(HmiError, match=r"from 0\.01 to 100"):
            tenant_set_weight(tenant=world.tenant, weight=weight, actor=None)
        with pytest.raises(IntegrityError), transaction.atomic():
            Tenant.objects.filter(pk=world.tenant.pk).update(weight=weight)


def test_rows_without_a_service_are_deleted_by_one_statement(staff: Client) -> None:
    attempts = [AccessAttempt(username=str(number), failures_since_start=1) for number in range(30)]
    chosen = [attempt.pk for attempt in AccessAttempt.objects.bulk_create(attempts)]
    body = {"action": "delete_selected", "_selected_action": chosen, "post": "yes"}
    body["typed_name"] = "delete 30 access attempts"
    with CaptureQueriesContext(connection) as queries:
        assert staff.post(page(AccessAttempt, "changelist"), body).status_code == 302
    assert not AccessAttempt.objects.exists()
    assert sum(query["sql"].startswith('DELETE FROM "axes_accessattempt" ') for query in queries) == 1
