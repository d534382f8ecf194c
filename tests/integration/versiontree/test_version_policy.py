"""A version's own policy: who sets it, how, and what it holds for."""

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from inference.cascade.dispatcher import AnswerPolicy
from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error, with_key
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionPolicy
from versiontree.tree.resolution import resolve_model
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_update, version_set_policy

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]

SPAM = f"{V1}/models/spam/versions"
INLINES = {
    f"{inline}-{count}_FORMS": "0" for inline in ("jobs", "artifact_links") for count in ("TOTAL", "INITIAL")
}
"""What a browser sends of the tables below the form."""


def test_the_policies_of_versions_are_those_of_the_engine() -> None:
    assert {policy for policy in VersionPolicy.values if policy} == {*AnswerPolicy}


def test_a_version_s_policy_is_resolved_with_its_name_and_is_on_record(
    model: Version, acme: TenantFixture
) -> None:
    assert resolve_model(acme.tenant, "spam").policy == ""
    version_set_policy(version=model, policy="full", actor=acme.developer)
    assert {resolve_model(acme.tenant, name).policy for name in ("spam", "spam:1")} == {"full"}
    event = AuditEvent.unscoped.get(verb="version.policy")
    assert (event.subject, event.actor, event.tenant) == ("acme/spam:1", acme.developer, acme.tenant)
    assert event.detail == {"policy": {"from": "default", "to": "full"}}
    version_set_policy(version=model, policy="", actor=None)
    assert resolve_model(acme.tenant, "spam").policy == ""
    assert AuditEvent.unscoped.filter(detail={"policy": {"from": "full", "to": "default"}}).count() == 1


def test_the_next_version_inherits_the_policy_of_the_one_it_continues(
    model: Version, acme: TenantFixture
) -> None:
    version_set_policy(version=model, policy="table", actor=None)
    after = hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None)
    assert after.policy == "table"


def test_invalid_policy_is_refused(model: Version, domain: Version, acme: TenantFixture) -> None:
    def setting(version: Version, policy: str) -> None:
        version_set_policy(version=version, policy=policy, actor=None)

    refused(lambda: setting(model, "auto"), ErrorCode.INVALID_FIELD, "policy")
    refused(lambda: setting(domain, "full"), ErrorCode.INVALID_FIELD, "policy")
    with pytest.raises(IntegrityError, match="version_policy_of_a_model"), transaction.atomic():
        Version.unscoped.filter(pk=domain.pk).update(policy="full")
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    refused(lambda: setting(model, "full"), ErrorCode.NOT_FOUND, "model")


def test_the_policy_is_shown_and_set_over_http(model: Version, acme: TenantFixture) -> None:
    key = with_key(acme, "manage")
    shown = key.get(f"{SPAM}/1").json()
    assert (shown["id"], shown["policy"]) == (model.pk, None)
    changed = key.patch(f"{SPAM}/1", {"policy": "table"}, format="json")
    assert (changed.status_code, changed.json()["policy"]) == (200, "table")
    assert [one["policy"] for one in key.get(SPAM).json()["results"]] == ["table"]
    assert key.get(f"{V1}/versions/{model.pk}").json()["policy"] == "table"
    assert key.patch(f"{SPAM}/1", {"policy": None}, format="json").json()["policy"] is None
    for body in ({"policy": "auto"}, {"policy": ""}):
        assert key.patch(f"{SPAM}/1", body, format="json").status_code == 422, body
    assert error(key.patch(f"{SPAM}/2", {"policy": "full"}, format="json"))[:2] == (404, "not_found")


def test_an_administrator_sets_it_on_the_version_s_page(
    model: Version, domain: Version, client: Client
) -> None:
    client.force_login(User.objects.create_superuser("boss"))
    page = reverse("admin:tree_version_change", args=[model.pk])
    assert 'name="policy"' in client.get(page).content.decode()
    assert client.post(page, INLINES | {"policy": "cascade"}).status_code == 302
    model.refresh_from_db()
    assert model.policy == "cascade"
    assert AuditEvent.unscoped.get(verb="version.policy").actor == User.objects.get(username="boss")
    page = reverse("admin:tree_version_change", args=[domain.pk])
    assert 'name="policy"' not in client.get(page).content.decode()
    assert client.post(page, INLINES | {"policy": "full"}).status_code == 403


def test_a_quick_version_has_no_policy(root: Version, acme: TenantFixture) -> None:
    trained = hplm_create(
        tenant=acme.tenant, name="quick", parent=root, dataset=acme.dataset, actor=None, quick=True
    )
    (quick,) = Version.unscoped.filter(hplm=trained.hplm, number=1)
    assert quick.is_quick
    refused(
        lambda: version_set_policy(version=quick, policy="full", actor=None),
        ErrorCode.INVALID_FIELD,
        "policy",
    )
