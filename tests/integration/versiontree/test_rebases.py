"""Models follow newer versions of their domain or root: what is offered, created and refused."""

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from tenants.accounts.models import Tenant, User
from tenants.accounts.services.tenants import tenant_set_auto_rebase, tenant_suspend
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.admin_pages import act
from tests.integration.versiontree.callers import V1, error, signed_in, with_key
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture, do_job, do_jobs, hplm_of, jobs_in_order
from versiontree.jobs.models import ACTIVE, Job, JobKind
from versiontree.jobs.services.control import job_cancel
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.promotion import AGAINST
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.selectors.past_jobs import past_durations
from versiontree.tree.selectors.rebases import rebase_offer
from versiontree.tree.selectors.versions import default_of
from versiontree.tree.services import rebase_tasks, rebases
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_update
from versiontree.tree.services.quota_reservations import is_counted, jobs_in_use
from versiontree.tree.services.rebases import hplm_rebase, owner_rebase, rebases_due
from versiontree.tree.services.roots import root_convert
from versiontree.tree.serving_manifest import manifest_content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def updated(version: Version) -> Version:
    """The next version of a domain."""
    text = tree_factory.corpus(version.tenant, f"texts-{Version.unscoped.count()}")
    return do_jobs(domain_update(domain=tree_factory.domain_of(version), corpus=text, actor=None))


def limit_jobs(home: TenantFixture, active: int) -> None:
    home.tenant.quota.max_active_jobs = active
    home.tenant.quota.save(update_fields=["max_active_jobs"])


def test_a_model_is_put_on_the_newest_version_of_its_domain_with_its_pet_data_and_policy(
    model: Version, domain: Version, acme: TenantFixture
) -> None:
    hplm = hplm_of(model)
    assert rebase_offer(model) is None
    updated(domain)
    newest = updated(domain)
    offer = rebase_offer(model)
    assert offer is not None
    assert (offer.current, offer.base, offer.target) == (model, domain, newest)
    past = past_durations(model.root_id, VersionKind.HPLM, [JobKind.FINE_TUNE], viewer=None)
    second = do_jobs(hplm_rebase(hplm=hplm, actor=acme.developer))
    assert past_durations(model.root_id, VersionKind.HPLM, [JobKind.FINE_TUNE], viewer=None) == past
    assert (second.number, second.parent, second.dataset) == (2, newest, model.dataset)
    assert second.config["rebase"] == {"id": model.pk, "version": 1, "onto": "biomedicine:3"}
    inputs = build_inputs(second)
    assert inputs.start_from == build_inputs(model).hplm
    assert len(inputs.plots) == 4
    assert default_of(second) == second
    assert AuditEvent.objects.for_tenant(acme.tenant).get(verb="model.rebase").actor == acme.developer
    third = do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    assert "rebase" not in third.config
    refused(lambda: hplm_rebase(hplm=hplm, actor=None), ErrorCode.CONFLICT, "model")


def test_default_moves_to_a_rebased_version_only_if_that_is_not_worse(
    model: Version, domain: Version
) -> None:
    updated(domain)
    hplm = hplm_of(model)
    second = hplm_rebase(hplm=hplm, actor=None)
    refused(lambda: hplm_rebase(hplm=hplm, actor=None), ErrorCode.CONFLICT, "model")
    do_job(jobs_in_order(second)[0])
    worse = {"rows": 20, "left_out": 0, "metric": "accuracy", "old": 0.9, "new": 0.5, "p_value": 0.01}
    do_job(jobs_in_order(second)[1], **{AGAINST: {"version": 1, "dev": worse, "test": worse}})
    assert default_of(model) == model
    refused(lambda: hplm_rebase(hplm=hplm, actor=None), ErrorCode.CONFLICT, "model")
    alias_move(hplm=hplm, name="default", version=second, actor=None)
    updated(domain)
    assert rebase_offer(second) is not None


def test_what_cannot_follow_says_why(
    root: Version, domain: Version, acme: TenantFixture, tmp_path: Path
) -> None:
    writer = do_jobs(tree_factory.new_writer(tree_factory.ready_decoder(tmp_path), acme))
    refused(lambda: hplm_rebase(hplm=hplm_of(writer), actor=None), ErrorCode.INVALID_FIELD, "model")
    trained = tree_factory.new_hplm(domain, "new", acme, quick=True)
    refused(lambda: hplm_rebase(hplm=hplm_of(trained), actor=None), ErrorCode.MODEL_NOT_READY, "model")
    do_job(jobs_in_order(Version.unscoped.get(hplm=trained.hplm, number=1))[0])
    job_cancel(job=jobs_in_order(trained)[0], actor=None)
    newest = updated(domain)
    refused(lambda: hplm_rebase(hplm=hplm_of(trained), actor=None), ErrorCode.MODEL_NOT_READY, "model")
    imported = tree_factory.ready_hplm(newest, "imported", acme)
    refused(lambda: hplm_rebase(hplm=hplm_of(imported), actor=None), ErrorCode.CONFLICT, "model")
    Version.unscoped.filter(pk=imported.pk).update(dataset=None)
    updated(domain)
    refused(lambda: hplm_rebase(hplm=hplm_of(imported), actor=None), ErrorCode.CONFLICT, "dataset")


def test_a_model_follows_a_root_that_was_converted_again_and_the_others_are_served_from_the_old_one(
    root: Version, acme: TenantFixture
) -> None:
    model, other = (tree_factory.ready_hplm(root, name, acme) for name in ("spam", "ham"))
    again = root_convert(root=root.root, actor=None)
    refused(lambda: root_convert(root=root.root, actor=None), ErrorCode.CONFLICT, "root")
    assert resolve_model(acme.tenant, "spam").root_digest == root.digest
    again = do_jobs(again)
    assert (again.number, again.parent) == (2, None)
    second = do_jobs(hplm_rebase(hplm=hplm_of(model), actor=None))
    assert len(build_inputs(second).plots) == 1
    served = manifest_content()["hplms"]
    assert served["acme/spam:2"]["root"] == again.digest
    assert served["acme/ham:1"]["root"] == root.digest
    assert build_inputs(other).root == build_inputs(model).root
    assert resolve_model(acme.tenant, "spam").root_digest == again.digest
    assert resolve_model(acme.tenant, "ham").root_digest == root.digest


def test_rebases_over_http_and_who_may_not(
    model: Version, domain: Version, acme: TenantFixture, globex: TenantFixture, key: APIClient
) -> None:
    newest = updated(domain)
    assert key.get(f"{V1}/rebases").json() == [
        {"model": "spam", "version": 1, "base": "biomedicine:1", "onto": "biomedicine:2", "problem": ""}
    ]
    one, many = f"{V1}/models/spam/rebase", f"{V1}/domains/{domain.domain_id}/rebase"
    stranger, viewer = with_key(globex, "manage"), signed_in(acme.viewer)
    assert error(stranger.post(one))[:2] == (404, "not_found")
    assert stranger.post(many).json() == {"versions": [], "refused": []}
    assert error(signed_in(globex.owner).post(f"{V1}/tenants/acme/models/spam/rebase"))[0] == 404
    assert error(viewer.post(f"{V1}/tenants/acme/models/spam/rebase"))[:2] == (403, "forbidden")
    assert error(viewer.post(f"{V1}/tenants/acme/domains/{domain.domain_id}/rebase"))[:2] == (
        403,
        "forbidden",
    )
    made = key.post(one, {"auto_promote": False})
    assert made.status_code == 201, made.content
    assert (made.json()["parent"], made.json()["config"]["auto_promote"]) == (newest.pk, False)
    assert key.get(f"{V1}/rebases").json() == []
    assert error(key.post(one)) == (409, "conflict", "model")


def test_all_models_of_a_tenant_on_a_domain_within_its_quota(
    domain: Version, acme: TenantFixture, globex: TenantFixture, key: APIClient
) -> None:
    for name in ("a", "b", "c"):
        tree_factory.ready_hplm(domain, name, acme)
    tree_factory.ready_hplm(domain, "a", globex)
    updated(domain)
    limit_jobs(acme, 4)
    done = key.post(f"{V1}/domains/{domain.domain_id}/rebase").json()
    assert [(version["name"], version["number"]) for version in done["versions"]] == [("a", 2), ("b", 2)]
    assert [(one["model"], one["code"]) for one in done["refused"]] == [("c", "quota_exceeded")]
    assert not Version.unscoped.filter(tenant=globex.tenant, number=2).exists()


def test_an_administrator_rebases_the_models_of_all_tenants(
    domain: Version,
    acme: TenantFixture,
    globex: TenantFixture,
    staff: APIClient,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    for home in (acme, globex):
        tree_factory.ready_hplm(domain, "spam", home)
    imported = tree_factory.ready_hplm(domain, "imported", acme)
    Version.unscoped.filter(pk=imported.pk).update(dataset=None)
    suspended = tree_factory.create_tenant("suspended")
    tree_factory.ready_hplm(domain, "spam", suspended)
    tenant_suspend(tenant=suspended.tenant, actor=None)
    updated(domain)
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(rebases, "dispatch", lambda *message, queue: sent.append(message))
    with django_capture_on_commit_callbacks(execute=True):
        answer = staff.post(f"{V1}/platform/domains/{domain.domain_id}/rebase")
    assert (answer.status_code, answer.json()) == (202, {"models": 2})
    [(_, kind, owner, user)] = sent
    for count in (2, 0):  # a message may come twice
        assert owner_rebase(kind=str(kind), owner_id=int(str(owner)), user_id=int(str(user))) == count
    made = Version.unscoped.filter(number=2, kind="model")
    assert set(made.values_list("created_by__username", flat=True)) == {"boss"}


def test_an_administrator_converts_a_root_again_and_its_models_may_follow(
    root: Version, acme: TenantFixture, client: Client, tmp_path: Path
) -> None:
    client.force_login(User.objects.create_superuser("boss"))
    tree_factory.ready_hplm(root, "spam", acme)
    assert "1 converting." in act(client, "root", "convert", root.root)
    again = do_jobs(Version.unscoped.get(root=root.root, kind="root", number=2))
    assert again.config["settings"] == root.config["settings"]
    assert "A worker rebases 1 model," in act(client, "root", "rebase", root.root)
    decoder = tree_factory.ready_decoder(tmp_path)
    assert "is not converted" in act(client, "root", "convert", decoder.root)


def test_models_follow_by_themselves_only_where_their_tenant_wants_that_and_a_failed_rebase_is_not_repeated(
    domain: Version,
    acme: TenantFixture,
    globex: TenantFixture,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    for name, home in (("spam", acme), ("ham", acme), ("spam", globex)):
        tree_factory.ready_hplm(domain, name, home)
    limit_jobs(acme, 2)
    tenant_set_auto_rebase(tenant=Tenant.objects.get(slug="acme"), rebases=True, actor=acme.owner)
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(rebase_tasks, "dispatch", lambda *message, queue: sent.append(message))
    with django_capture_on_commit_callbacks(execute=True):
        updated(domain)
    assert sent == [("tree.rebase_models_due",)]
    assert [rebases_due(), rebases_due()] == [1, 0]
    version = Version.unscoped.get(kind="model", number=2)
    assert (version.name, version.tenant, version.created_by) == ("ham", acme.tenant, None)
    tree_factory.new_hplm(domain, "own", acme)
    assert jobs_in_use(acme.tenant) == 2, "those of the rebase are counted apart"
    assert sum(map(is_counted, Job.shown.filter(tenant=acme.tenant, state__in=ACTIVE))) == 2
    job_cancel(job=jobs_in_order(version)[0], actor=None)
    assert [rebases_due(), rebases_due()] == [1, 0], "the one that the quota refused"
    limit_jobs(acme, 4)
    hplm_rebase(hplm=hplm_of(version), actor=None)
