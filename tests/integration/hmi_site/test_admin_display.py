"""How the administration writes what it shows: numbers, names, and lists without rows."""

import re
from datetime import date
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tenants.accounts.models import Tenant
from tenants.usage.models import Quota, UsageDay
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import plain
from versiontree.tree.models import Artifact, Version


@pytest.fixture
def version(staff: Client, tmp_path: Any) -> Version:
    """A model's."""
    home = tree_factory.create_tenant("acme")
    return tree_factory.ready_hplm(tree_factory.ready_root(tmp_path), "spam", home)


def text_of(staff: Client, page: str, *args: Any, **sent: Any) -> str:
    answer = staff.get(reverse(f"admin:{page}", args=args), sent)
    assert answer.status_code == 200, page
    return " ".join(plain(answer).split())


def test_lists_group_the_digits_of_amounts_and_tell_the_key_of_usage(staff: Client) -> None:
    tenant = tree_factory.create_tenant("acme").tenant
    for key, requests in (("abcd1234", 439_560), ("", 1_000)):
        UsageDay.unscoped.create(
            tenant=tenant, day=date(2026, 5, 1), model_name="spam", key_prefix=key, requests=requests
        )
    usage = text_of(staff, "usage_usageday_changelist")
    assert "API key" in usage
    assert re.search("abcd1234 439,560 0 0 0 0", usage), usage
    smallest_first = text_of(staff, "usage_usageday_changelist", o="5")
    assert smallest_first.index(" 1,000 ") < smallest_first.index(" 439,560 ")


def test_forms_and_addresses_do_not_group_digits(staff: Client) -> None:
    tenant = tree_factory.create_tenant("acme").tenant
    Tenant.objects.filter(pk=tenant.pk).update(weight=7)
    quota, _ = Quota.unscoped.update_or_create(tenant=tenant, defaults={"max_models": 12_345})
    assert "12,345" in text_of(staff, "usage_quota_changelist")
    form = staff.get(reverse("admin:usage_quota_change", args=[quota.pk])).content.decode()
    assert 'value="12345"' in form


def test_artifacts_are_listed_by_kind_with_the_versions_that_use_them(
    staff: Client, version: Version
) -> None:
    made = version.artifact_links.get().artifact
    second = tree_factory.new_hplm(version.parent, "ham", tree_factory.create_tenant("globex"))
    second.artifact_links.create(artifact=made, role="hplm", tenant=second.tenant)
    lone = Artifact.objects.create(kind="plot", digest="a" * 64, size=1, files={})
    listed = text_of(staff, "tree_artifact_changelist")
    assert re.search(rf"Adapters and head acme/spam:1 and 1 more .{{1,40}}{made.digest[:12]} ", listed), (
        listed
    )
    assert made.digest not in listed
    assert lone.digest[:12] in listed
    assert version.digest[:12] not in text_of(staff, "tree_version_changelist")


def test_an_order_that_asks_for_a_name_is_headed_by_what_it_does(staff: Client, version: Version) -> None:
    sent = {"action": "stop_serving", "_selected_action": [version.hplm_id]}
    asked = plain(staff.post(reverse("admin:tree_hplm_changelist"), sent))
    assert "Delete this model?" in asked.split("</h1>")[-1]
    assert "Requests to this model fail at once" in asked
