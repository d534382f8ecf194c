"""The admin pages of this application, as staff use them."""

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Field
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags
from pytest_django import Settings

from tenants.accounts.authentication import api_key_from
from tenants.accounts.models import ApiKey, IdempotentResponse, Invitation, Membership, Tenant, User
from tenants.accounts.selectors import membership_of
from tenants.accounts.services.invitations import invitation_create
from tenants.audit.models import AuditEvent
from tenants.datasets.models import Corpus, Dataset, File
from tenants.datasets.services.checks import check_create
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_create
from tenants.datasets.storage import UPLOADS_FOLDER
from tenants.usage.models import Quota
from tenants.usage.selectors import quota_of
from tenants.usage.services.usage import usage_record
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from tests.integration.tenants.content import CORPUS, nothing_is_left, rows, stored, stream, upload
from tests.integration.world import World
from versiontree.transfer.services.takeouts import takeout_request

pytestmark = pytest.mark.usefixtures("in_platform_scope")

BADGE = r'<span class="[^"]*bg-(green|orange)-100[^>]*>\s*([A-Z][a-z]+)'


@pytest.fixture
def staff(world: World) -> Client:
    client = Client()
    client.force_login(world.staff)
    return client


@pytest.fixture
def furnished(world: World) -> World:
    """The world with a row of every model."""
    world.key()
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9)
    dataset_upload(
        tenant=world.tenant,
        name="mood",
        task="classification",
        files={"train": ("a.jsonl", stream(rows(40)))},
    )
    Corpus.unscoped.create(tenant=None, name="books", sha256="a" * 64, size_bytes=1, rows=1, words=1)
    upload = upload_create(tenant=world.tenant, filename="a.txt", size=0, actor=world.owner)
    takeout_request(tenant=world.tenant, actor=world.owner)
    check_create(tenant=world.tenant, kind="corpus", files={"file": upload}, actor=world.owner, store=False)
    invitation_create(tenant=world.tenant, email="new@example.org", role="viewer", actor=world.owner)
    endpoint, _ = webhook_create(
        tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
    )
    webhook_test(endpoint=endpoint, actor=world.owner)
    File.unscoped.create(tenant=world.tenant, purpose="batch", filename="b", sha256="a" * 64, size_bytes=1)
    IdempotentResponse.unscoped.create(
        tenant=world.tenant, key_digest="a" * 64, fingerprint="b" * 64, status=201, encrypted_response=""
    )
    return world


def quota_fields(**changed: str) -> dict[str, str]:
    """The quota on the form of a new tenant: the defaults, and what is changed."""
    shown = {
        field.name: str(field.default)
        for field in Quota._meta.get_fields()
        if isinstance(field, Field) and field.name.startswith("max_")
    }
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
    assert re.search(r"Give new@example\.org this link; it is shown only once: http://testserver/", told)


def test_a_new_tenant_needs_one_owner(world: World, staff: Client) -> None:
    sent = {"slug": "initech", "name": "Initech", "weight": "1", **quota_fields()}
    none = staff.post(page(Tenant, "add"), sent)
    assert none.context["adminform"].form.errors == {"owner": ["Choose a user, or enter an e-mail address."]}
    two = staff.post(page(Tenant, "add"), sent | {"owner": world.viewer.pk, "owner_email": "a@example.org"})
    assert list(two.context["adminform"].form.errors) == ["owner_email"]
    assert not Tenant.objects.filter(slug="initech").exists()


def test_a_slug_that_is_not_plain_is_a_mistake_in_the_form(world: World, staff: Client) -> None:
    answer = staff.post(page(Tenant, "add"), {"slug": "Initech", "name": "Initech", "weight": "1"})
    assert answer.status_code == 200
    assert "weight" not in answer.context["adminform"].errors
    assert not Tenant.objects.filter(name="Initech").exists()


def test_tenants_are_suspended_and_resumed(world: World, staff: Client) -> None:
    for action, suspended in (("suspend", True), ("resume", False)):
        sent = {"action": action, "_selected_action": [world.tenant.pk], "typed_name": "acme"}
        staff.post(page(Tenant, "changelist"), sent)
        world.tenant.refresh_from_db()
        assert world.tenant.is_suspended is suspended
        for at in (page(Tenant, "changelist"), page(Tenant, "change", world.tenant.pk)):
            labels = re.findall(BADGE, staff.get(at).content.decode())
            assert ("orange", "Suspended") in labels if suspended else ("green", "Active") in labels, at
    verbs = AuditEvent.objects.for_tenant(world.tenant).values_list("verb", "actor__username")
    assert {("tenant.suspend", "staff"), ("tenant.resume", "staff")} <= set(verbs)


def test_nothing_is_suspended_or_deleted_before_its_slug_is_typed(world: World, staff: Client) -> None:
    for action in ("suspend", "delete_data"):
        sent = {"action": action, "_selected_action": [world.tenant.pk], "typed_name": "globex"}
        asked = staff.post(page(Tenant, "changelist"), sent)
        assert "acme" in asked.content.decode()
    world.tenant.refresh_from_db()
    assert (world.tenant.suspended_at, world.tenant.deletion_requested_at) == (None, None)
    sent |= {"typed_name": "acme"}
    assert "memberships" in asked.content.decode()
    staff.post(page(Tenant, "changelist"), sent)
    world.tenant.refresh_from_db()
    assert world.tenant.deletion_requested_at is not None
    shown = staff.get(page(Tenant, "change", world.tenant.pk)).content.decode()
    assert "being deleted" in shown
    assert 'value="resume"' not in shown


def test_a_quota_and_a_name_that_are_changed_here_are_written_down(world: World, staff: Client) -> None:
    staff.post(page(Quota, "change", quota_of(world.tenant).pk), quota_form(world, max_models="7"))
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
    events = AuditEvent.objects.for_tenant(world.tenant).filter(actor=world.staff).order_by("pk")
    assert list(events.values_list("verb", "detail")) == [
        ("quota.change", {"max_models": {"from": 50, "to": 7}}),
        ("tenant.rename", {"from": "Acme", "to": "Acme & Sons"}),
        ("quota.change", {"max_domains": {"from": 3, "to": 4}}),
    ]
    AuditEvent.unscoped.create(verb="job.reap", subject="x", tenant=world.tenant, address="192.0.2.7")
    listed = strip_tags(staff.get(page(AuditEvent, "changelist")).content.decode())
    told = " ".join(unescape(listed).split())
    event = events[0]
    assert f"{event.at:%-d %b %Y, %H:%M:%S} quota.change" in told
    assert 'max_models: {"from": 50, "to": 7}' in told
    assert "job.reap x acme System 192.0.2.7" in told


def quota_form(world: World, **changed: str) -> dict[str, str]:
    """The fields of the quota as a browser sends them."""
    quota = quota_of(world.tenant)
    names = [field.name for field in Quota._meta.fields if field.name not in ("id", "tenant")]
    now = {name: getattr(quota, name) for name in names}
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


def test_the_last_owner_is_kept_here_too(world: World, staff: Client) -> None:
    owner = membership_of(world.owner, world.tenant)
    assert owner is not None
    assert staff.post(page(Membership, "delete", owner.pk), {"post": "yes"}).status_code == 409
    assert Membership.objects.for_tenant(world.tenant).filter(role="owner").exists()


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
    revoking = {"action": "revoke", "_selected_action": [key.pk]}
    staff.post(page(ApiKey, "changelist"), revoking)
    assert api_key_from(plaintext) == key
    staff.post(page(ApiKey, "changelist"), {**revoking, "typed_name": str(key)})
    assert api_key_from(plaintext) is None


def test_before_something_is_deleted_it_says_what_goes_with_it_or_what_keeps_it(
    furnished: World, staff: Client
) -> None:
    def asked(row: Any) -> str:
        return staff.get(page(type(row), "delete", row.pk)).content.decode()

    goes = asked(furnished.viewer)
    assert "viewer in acme: viewer" in goes
    assert 'type="submit">Delete' in goes
    owner = asked(furnished.owner)
    assert "cannot be deleted. It is used by:" in owner
    assert "API key" in owner
    assert 'type="submit">Delete' not in owner
    AuditEvent.unscoped.bulk_create(
        AuditEvent(verb="x", subject="y", actor=furnished.staff) for _ in range(30)
    )
    assert "and 10 more" in asked(furnished.staff)


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


def test_a_taken_name_is_a_mistake_in_the_form(world: World, staff: Client, upload_root: Path) -> None:
    for _ in range(2):
        fields = {"tenant": "", "name": "books", "file": upload("books.txt", CORPUS)}
        answer = staff.post(page(Corpus, "add"), fields)
    assert answer.status_code == 200
    assert Corpus.unscoped.count() == 1


def test_deleting_datasets_in_the_list_takes_their_files(
    furnished: World, staff: Client, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    dataset = Dataset.unscoped.get()
    chosen = {"action": "delete_selected", "_selected_action": [dataset.pk], "post": "yes"}
    staff.post(page(Dataset, "changelist"), chosen)
    assert Dataset.unscoped.exists()
    chosen["typed_name"] = str(dataset)
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(page(Dataset, "changelist"), chosen)
    assert not Dataset.unscoped.exists()
    assert not [name for name in stored(upload_root) if not name.startswith(UPLOADS_FOLDER)]


def test_staff_make_users_who_can_sign_in(world: World, staff: Client) -> None:
    fields = {
        "username": "newcomer",
        "password1": "a long enough one",
        "password2": "a long enough one",
        "usable_password": "true",
    }
    staff.post(page(User, "add"), fields)
    form = {"login": "newcomer", "password": "a long enough one"}
    assert Client().post("/login/", form).status_code == 302


def test_an_invitation_past_its_end_is_shown_as_expired(world: World, staff: Client) -> None:
    invitation_create(tenant=world.tenant, email="new@example.org", role="viewer", actor=world.owner)
    told = re.compile(r"new@example\.org\s+acme\s+Viewer\s+(\w+)")

    def listed() -> str:
        found = told.search(strip_tags(staff.get(page(Invitation, "changelist")).content.decode()))
        return found[1] if found else ""

    assert listed() == "Waiting"
    Invitation.unscoped.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert listed() == "Expired"
    invitation = Invitation.unscoped.get()
    assert "Expired" in staff.get(page(Invitation, "change", invitation.pk)).content.decode()
