"""A retired root: nothing starts on it, and what is there goes on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from tenants.accounts.models import User
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import act, plain
from tests.integration.versiontree.callers import V1, error
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture, do_jobs, domain_of, hplm_of
from versiontree.tree.models import Root, Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.bases import bases_visible_to
from versiontree.tree.selectors.coverage import coverage_targets
from versiontree.tree.selectors.versions import has_ready_root, parents_ready_for
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.hplms import hplm_create, hplm_update
from versiontree.tree.services.rebases import hplm_rebase
from versiontree.tree.services.root_retirement import root_retire
from versiontree.tree.services.roots import root_convert

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_nothing_starts_on_a_retired_root_and_the_error_names_the_roots_that_are_there(
    root: Version, domain: Version, acme: TenantFixture, key: APIClient, tmp_path: Path
) -> None:
    tree_factory.ready_root(tmp_path, "other")
    tree_factory.ready_decoder(tmp_path)
    root_retire(root=root.root, actor=None)
    tenant, text = acme.tenant, acme.corpus
    starts: list[Callable[[], object]] = [
        starts
        for parent in (root, domain)
        for starts in (
            partial(domain_create, tenant=tenant, parent=parent, name="law", corpus=text, actor=None),
            partial(hplm_create, tenant=tenant, name="new", parent=parent, dataset=acme.dataset, actor=None),
        )
    ]
    for start in starts:
        refusal = refused(start, ErrorCode.MODEL_NOT_READY, "parent")
        assert "root bert is retired" in refusal.message
        assert refusal.details == {"roots": ["other"]}
    asked = {"name": "new", "parent": root.pk, "dataset": acme.dataset.pk}
    answer = key.post(f"{V1}/tenants/acme/models", asked, format="json")
    assert error(answer) == (409, "model_not_ready", "parent")
    offered = {version.root.name for version in parents_ready_for(tenant)}
    assert offered == {version.root.name for version in coverage_targets(tenant)} == {"other"}
    assert {str(base) for base in bases_visible_to(tenant)} == {"other", "smol"}


def test_models_on_a_retired_root_are_served_trained_further_and_rebased(
    root: Version, domain: Version, acme: TenantFixture
) -> None:
    below_root, below_domain = (
        tree_factory.ready_hplm(parent, name, acme) for parent, name in ((root, "ham"), (domain, "spam"))
    )
    root_retire(root=root.root, actor=None)
    assert not has_ready_root()
    assert resolve_model(acme.tenant, "spam").version_number == below_domain.number
    again = do_jobs(root_convert(root=root.root, actor=None))
    text = tree_factory.corpus(None, "more")
    updated = do_jobs(domain_update(domain=domain_of(domain), corpus=text, actor=None))
    for version, onto in ((below_root, again), (below_domain, updated)):
        assert do_jobs(hplm_rebase(hplm=hplm_of(version), actor=None)).parent == onto
        further = do_jobs(hplm_update(hplm=hplm_of(version), dataset=acme.dataset, actor=None))
        assert further.state == "ready"


def test_a_root_is_retired_once_by_administrators_after_they_saw_what_depends_on_it(
    root: Version, domain: Version, acme: TenantFixture, globex: TenantFixture, client: Client
) -> None:
    tree_factory.ready_hplm(root, "ham", acme)
    tree_factory.ready_hplm(domain, "spam", acme)
    tree_factory.ready_hplm(domain, "eggs", globex)
    client.force_login(User.objects.create_superuser("boss"))
    asked = act(client, "root", "retire", root.root)
    assert "1 domain, and 3 models of 2 tenants" in asked
    assert Root.objects.get().retired_at is None
    assert "1 retired" in act(client, "root", "retire", root.root, typed_name="bert")
    assert "bert is retired already" in act(client, "root", "retire", root.root, typed_name="bert")
    page = plain(client.get(reverse("admin:tree_root_change", args=[root.root.pk])))
    assert "1 domain, and 3 models of 2 tenants" in page
    event = AuditEvent.unscoped.get(verb="root.retire")
    assert event.detail == {"domains": 1, "models": 3, "tenants": 2}


def test_a_tenant_sees_how_many_of_its_own_models_are_on_a_retired_root(
    root: Version, domain: Version, acme: TenantFixture, globex: TenantFixture, staff: APIClient
) -> None:
    for home, names in ((acme, ("ham",)), (globex, ("spam", "eggs"))):
        for name in names:
            tree_factory.ready_hplm(domain, name, home)
    retired = staff.post(f"{V1}/platform/roots/bert/retire")
    assert retired.json()["retired_at"] is not None
    assert error(staff.post(f"{V1}/platform/roots/bert/retire")) == (409, "invalid_transition", None)
    assert error(staff.post(f"{V1}/platform/roots/none/retire"))[:2] == (404, "not_found")
    pages = Client()
    pages.force_login(globex.developer)
    card = plain(pages.get(reverse("frontend:tree_card", args=["globex", "root", root.root.pk])))
    assert "0 domains and 2 models on it" in card
    assert "New model" not in card
