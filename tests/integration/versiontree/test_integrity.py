"""What PostgreSQL itself refuses, whoever asks."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.tree.models import Alias, Artifact, Domain, Hplm, Root, Version, VersionArtifact
from versiontree.tree.services.hplms import hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANY = {"kind": "hplm", "digest": "a" * 64, "size": 1, "files": {}}


def refused(act: Callable[[], object], words: str) -> None:
    with pytest.raises(IntegrityError, match=words), transaction.atomic():
        act()


def birth(parent: Version, **changes: Any) -> Callable[[], Version]:
    """A version of a model below ``parent``, with some of its columns as told."""
    return lambda: Version.unscoped.create(
        **({"kind": "model", "parent": parent, "root": parent.root, "number": 9} | changes)
    )


def test_a_version_does_not_grow_from_another_tenants(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    private = tree_factory.ready_domain(root, "secret", home=acme)
    theirs = Hplm.unscoped.create(tenant=globex.tenant, name="theirs", task="classification")
    refused(birth(private, hplm=theirs, tenant=globex.tenant), "its tenant or to the platform")


def test_a_platform_domain_does_not_grow_from_a_tenants(root: Version, acme: TenantFixture) -> None:
    private = tree_factory.ready_domain(root, "secret", home=acme)
    public = Domain.unscoped.create(root=root.root, name="public")
    refused(birth(private, kind="domain", domain=public), "its tenant or to the platform")


def test_a_version_does_not_change_roots(domain: Version, acme: TenantFixture, tmp_path: Any) -> None:
    other = tree_factory.ready_root(tmp_path, "other")
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    refused(birth(domain, hplm=mine, tenant=acme.tenant, root=other.root), "one root")


def test_a_version_is_not_given_to_another_tenant_than_its_hplm(
    domain: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    refused(birth(domain, hplm=mine, tenant=globex.tenant), "what it is a version of")


def test_an_hplm_does_not_grow_from_another_hplm(model: Version, acme: TenantFixture) -> None:
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    refused(birth(model, hplm=mine, tenant=acme.tenant), "only its own newer versions")


def test_nothing_grows_from_an_unfinished_version(root: Version, acme: TenantFixture) -> None:
    unfinished = tree_factory.new_hplm(root, "spam", acme)
    refused(birth(unfinished, hplm=unfinished.hplm, tenant=acme.tenant), "is ready")


def test_a_version_does_not_learn_from_another_tenants_data(
    domain: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    refused(birth(domain, hplm=mine, tenant=acme.tenant, dataset=globex.dataset), "data of its own tenant")
    refused(birth(domain, hplm=mine, tenant=acme.tenant, corpus=globex.corpus), "data of its own tenant")


def test_only_a_first_root_version_has_no_parent(root: Version, acme: TenantFixture) -> None:
    mine = Hplm.unscoped.create(tenant=acme.tenant, name="mine", task="classification")
    orphan = {"root": root.root, "number": 1, "parent": None}
    refused(
        lambda: Version.unscoped.create(kind="model", hplm=mine, tenant=acme.tenant, **orphan),
        "version_has_a_parent",
    )
    second = {"root": root.root, "number": 2, "parent": None}
    refused(lambda: Version.unscoped.create(kind="root", **second), "version_has_a_parent")


def test_a_version_is_of_exactly_one_thing(domain: Version, acme: TenantFixture) -> None:
    refused(birth(domain, tenant=None), "version_is_of_one_thing")


def test_numbers_of_versions_are_given_once(model: Version) -> None:
    refused(birth(model, hplm=model.hplm, tenant=model.tenant, number=1), "version_number_per_hplm")


def test_identity_of_a_version_never_changes(model: Version) -> None:
    changes: list[dict[str, Any]] = [
        {"number": 7},
        {"kind": "domain"},
        {"config": {"alpha": 1}},
        {"created_at": NOW},
        {"parent_id": None},
        {"tenant_id": None},
    ]
    for change in changes:
        refused(partial(Version.unscoped.filter(pk=model.pk).update, **change), "never changes")


def test_a_digest_never_changes(model: Version) -> None:
    refused(lambda: Version.unscoped.filter(pk=model.pk).update(digest="0" * 64), "digest")


def test_a_ready_version_is_never_unfinished_again(model: Version) -> None:
    for state in ("building", "failed"):
        refused(partial(Version.unscoped.filter(pk=model.pk).update, state=state), "does not go from")


def test_a_version_that_an_alias_points_at_is_neither_retired_nor_deleted(model: Version) -> None:
    refused(lambda: Version.unscoped.filter(pk=model.pk).update(state="retired"), "alias points")
    with connection.cursor() as cursor:
        sql = "DELETE FROM tree_version WHERE id = %s"
        refused(lambda: cursor.execute(sql, [model.pk]), "alias points")


def test_a_version_with_children_is_not_deleted(model: Version, domain: Version) -> None:
    with connection.cursor() as cursor:
        sql = "DELETE FROM tree_version WHERE id = %s"
        refused(lambda: cursor.execute(sql, [domain.pk]), "stand below")


def test_a_ready_version_has_a_digest(root: Version, acme: TenantFixture) -> None:
    unfinished = tree_factory.new_hplm(root, "spam", acme)
    refused(
        lambda: Version.unscoped.filter(pk=unfinished.pk).update(state="ready", ready_at=NOW),
        "version_digest_when_ready",
    )


def test_an_alias_points_at_its_own_hplm(model: Version, domain: Version, acme: TenantFixture) -> None:
    other = tree_factory.ready_hplm(domain, "other", acme)
    refused(lambda: Alias.unscoped.filter(hplm=other.hplm).update(version=model), "its own model")


def test_an_alias_points_at_a_ready_version(model: Version, acme: TenantFixture) -> None:
    unfinished = hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None)
    refused(lambda: Alias.unscoped.filter(hplm=model.hplm).update(version=unfinished), "ready version")


def test_artifacts_never_change(model: Version) -> None:
    refused(lambda: Artifact.objects.update(size=0), "never changed")
    refused(lambda: VersionArtifact.unscoped.filter(version=model).update(role="plot"), "never changed")
    refused(lambda: VersionArtifact.unscoped.filter(version=model).delete(), "keeps its artifacts")
    plot = Artifact.objects.filter(kind="plot").earliest("pk")
    refused(
        lambda: VersionArtifact.unscoped.create(version=model, artifact=plot, role="plot"), "takes no more"
    )


def test_a_ready_version_gets_one_profile_and_keeps_it(model: Version) -> None:
    made = [
        Artifact.objects.create(**(ANY | {"kind": "cascade", "digest": digit * 64})) for digit in ("b", "c")
    ]
    link = partial(VersionArtifact.unscoped.create, version=model, tenant=model.tenant, role="cascade")
    link(artifact=made[0])
    refused(partial(link, artifact=made[1]), "version_artifact_role_is_unique")
    refused(lambda: VersionArtifact.unscoped.filter(artifact=made[0]).delete(), "keeps its artifacts")


def test_an_artifact_is_used_in_the_role_of_its_kind(root: Version, acme: TenantFixture) -> None:
    unfinished = tree_factory.new_hplm(root, "spam", acme)
    plot = Artifact.objects.filter(kind="plot").earliest("pk")
    refused(
        lambda: VersionArtifact.unscoped.create(version=unfinished, artifact=plot, role="hplm"), "of its kind"
    )


def test_an_artifact_of_a_version_is_of_its_tenant(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    unfinished, made = tree_factory.new_hplm(root, "spam", acme), Artifact.objects.create(**ANY)
    link = partial(VersionArtifact.unscoped.create, version=unfinished, artifact=made, role="hplm")
    refused(link, "of the tenant of the version")
    refused(partial(link, tenant=globex.tenant), "of the tenant of the version")


def test_a_job_belongs_to_the_tenant_of_its_version(model: Version, globex: TenantFixture) -> None:
    refused(
        lambda: Job.unscoped.create(kind="evaluate", version=model, tenant=globex.tenant, state="queued"),
        "tenant of its version",
    )


def test_a_job_waits_only_for_one_of_its_own_version(model: Version, domain: Version) -> None:
    other = Job.unscoped.filter(version=domain).first()
    refused(
        lambda: Job.unscoped.create(kind="evaluate", version=model, tenant=model.tenant, after=other),
        "same version",
    )


def test_a_job_that_succeeded_stays_so(model: Version) -> None:
    done = Job.unscoped.filter(version=model)
    refused(lambda: done.update(state="queued"), "is done")


def test_two_jobs_of_one_version_are_never_at_work_together(model: Version) -> None:
    Job.unscoped.create(kind="evaluate", version=model, tenant=model.tenant, state="queued")
    refused(
        lambda: Job.unscoped.create(kind="evaluate", version=model, tenant=model.tenant, state="queued"),
        "job_one_active_per_version",
    )


def test_a_running_job_has_a_worker_and_a_lease_and_no_other_job_has(model: Version) -> None:
    job = Job.unscoped.create(kind="evaluate", version=model, tenant=model.tenant, state="queued")
    mine = Job.unscoped.filter(pk=job.pk)
    refused(lambda: mine.update(state="running"), "job_lease_while_running")
    refused(lambda: mine.update(lease_expires_at=NOW), "job_lease_while_running")
    refused(lambda: mine.update(state="running", lease_expires_at=NOW, worker=""), "job_lease_while_running")


def test_names_are_slugs_in_the_database_too(acme: TenantFixture) -> None:
    for name in ("", "Upper", "-x", "x-", "a b", "ä", "x" * 64, "a/b", "x\n"):
        with pytest.raises(DatabaseError), transaction.atomic():
            Root.objects.create(name=name, source="x")
        with pytest.raises(DatabaseError), transaction.atomic():
            Hplm.unscoped.create(tenant=acme.tenant, name=name, task="tagging")


def test_two_platform_domains_do_not_share_a_name(domain: Version) -> None:
    refused(
        lambda: Domain.unscoped.create(root=domain.root, name="biomedicine", tenant=None),
        "domain_name_is_unique",
    )
