"""Forms of the administration: constraints are named by a sentence at a field, and numbers are plain."""

from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse

from tenants.accounts.models import Membership, Tenant, User
from tenants.datasets.models import Corpus
from tenants.usage.models import Quota
from tests.integration.world import World
from versiontree.names import SLUG_RULE
from versiontree.tree.models import Domain, Root

OURS = ("tenants.", "versiontree.", "inference.", "hmi_site.")


@pytest.fixture
def staff(world: World) -> Client:
    client = Client()
    client.force_login(world.staff)
    return client


def errors(client: Client, model: Any, sent: dict[str, Any], pk: object = None) -> dict[str, list[str]]:
    """The errors of the form by field, after it was sent."""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{'change' if pk else 'add'}"
    answer = client.post(reverse(name, args=[pk] if pk else []), sent)
    assert answer.status_code == 200, "the form is shown again"
    return dict(answer.context["adminform"].form.errors)


def test_every_constraint_of_every_model_has_a_sentence() -> None:
    without = []
    for model in apps.get_models():
        if not model.__module__.startswith(OURS):
            continue
        for constraint in model._meta.constraints:
            message = str(constraint.violation_error_message)
            is_default = message == constraint.default_violation_error_message
            if is_default or not message[:1].isupper() or not message.endswith(".") or "%(" in message:
                without.append(f"{model._meta.label}: {constraint.name}")
    assert not without, f"Give these constraints a violation_error_message that is a sentence: {without}"


def test_a_name_that_is_no_slug_is_told_at_the_name_even_if_other_fields_are_missing(staff: Client) -> None:
    assert errors(staff, Root, {"name": "My root"})["name"] == [SLUG_RULE]
    assert errors(staff, Domain, {"name": "My domain"})["name"] == [SLUG_RULE]
    told = errors(staff, Tenant, {"slug": "Initech", "name": "Initech"})["slug"]
    assert told == ["A slug is 1 to 50 lower-case letters, digits and hyphens, with no hyphen at either end."]


def test_a_row_that_is_there_already_is_told_at_what_names_it(world: World, staff: Client) -> None:
    sent = {"tenant": world.tenant.pk, "user": world.viewer.pk, "role": "viewer"}
    assert errors(staff, Membership, sent) == {"user": ["This user is already a member of the tenant."]}
    Corpus.unscoped.create(tenant=world.tenant, name="books", sha256="a" * 64, size_bytes=1, rows=1, words=1)
    taken = errors(staff, Corpus, {"tenant": world.tenant.pk, "name": "books"})
    assert taken["name"] == ["There is already a corpus of this name."]
    person = {"username": "OWNER", "date_joined_0": "2026-01-01", "date_joined_1": "00:00"}
    told = errors(staff, User, person, world.viewer.pk)
    assert told == {"username": ["There is already a user with this name (ignoring case)."]}


def test_a_rate_of_zero_is_told_at_the_rate(world: World, staff: Client) -> None:
    quota = Quota.unscoped.get(tenant=world.tenant)
    told = errors(staff, Quota, {"requests_per_minute": "0"}, quota.pk)
    assert told["requests_per_minute"] == ["Ensure this value is greater than or equal to 1."]
    assert "__all__" not in told


def test_lists_group_digits_and_forms_do_not(world: World, staff: Client) -> None:
    quota, _ = Quota.unscoped.update_or_create(tenant=world.tenant, defaults={"max_models": 12_345})
    listed = staff.get(reverse("admin:usage_quota_changelist")).content.decode()
    form = staff.get(reverse("admin:usage_quota_change", args=[quota.pk])).content.decode()
    assert "12,345" in listed
    assert 'value="12345"' in form
