"""Creating, updating and deleting models, moving aliases: what it makes and what it refuses."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from rest_framework.test import APIClient

from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tenants.base.scope import platform_scope
from tenants.datasets.selectors.uploads import storage_used
from tenants.usage.models import Quota
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import JobState
from versiontree.jobs.services.control import job_cancel, job_retry
from versiontree.tree.models import Alias, AliasMove, Version, VersionArtifact
from versiontree.tree.selectors.versions import artifact_bytes
from versiontree.tree.services.aliases import alias_move, alias_remove
from versiontree.tree.services.hplms import hplm_create, hplm_delete, hplm_update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_acme_scope")]


def test_an_hplm_is_fine_tuned_and_measured(domain: Version, acme: TenantFixture) -> None:
    version = hplm_create(
        tenant=acme.tenant,
        name="spam",
        parent=domain,
        dataset=acme.dataset,
        actor=acme.developer,
        settings={"epochs": 3, "learning_rate": 0.003},
    )
    tune, evaluate = tree_factory.jobs_in_order(version)
    assert tune.params["settings"] == {"epochs": 3, "learning_rate": 0.003}
    assert set(tune.params["dataset"]["splits"]) == {"train", "dev", "test"}
    assert (evaluate.kind, evaluate.after) == ("evaluate", tune)
    assert version.config["labels"] == ["no", "yes"]
    event = AuditEvent.objects.for_tenant(acme.tenant).get(verb="model.create")
    assert (event.subject, event.actor) == ("acme/spam", acme.developer)


def test_an_update_goes_on_from_the_version_that_serves(root: Version, acme: TenantFixture) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    hplm = tree_factory.hplm_of(first)
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    assert (second.number, second.parent) == (2, first)
    assert Alias.unscoped.get(hplm=hplm).version == second
    alias_move(hplm=hplm, name="default", version=first, actor=None, reason="worse")
    third = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    assert third.parent == first


def test_an_older_update_that_finishes_later_does_not_serve(root: Version, acme: TenantFixture) -> None:
    hplm = tree_factory.hplm_of(tree_factory.ready_hplm(root, "spam", acme))
    second = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    third = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    tree_factory.do_jobs(second)
    assert Alias.unscoped.get(hplm=hplm).version == third


def test_an_update_and_an_alias_need_ready_versions_and_data_of_the_same_task(
    root: Version, acme: TenantFixture
) -> None:
    hplm = tree_factory.hplm_of(tree_factory.ready_hplm(root, "spam", acme))
    unready = tree_factory.hplm_of(tree_factory.new_hplm(root, "ham", acme))
    tagging = tree_factory.dataset(acme.tenant, "names", task="tagging")
    second = hplm_update(hplm=hplm, dataset=acme.dataset, actor=None)
    update, move = partial(hplm_update, actor=None), partial(alias_move, hplm=hplm, name="next", actor=None)
    refused(lambda: update(hplm=hplm, dataset=tagging), ErrorCode.INVALID_FIELD, "dataset")
    refused(lambda: update(hplm=unready, dataset=acme.dataset), ErrorCode.MODEL_NOT_READY, "model")
    refused(lambda: move(version=second), ErrorCode.MODEL_NOT_READY, "version")


@platform_scope()
def test_two_tenants_may_use_one_name(root: Version, acme: TenantFixture, globex: TenantFixture) -> None:
    tree_factory.new_hplm(root, "spam", acme)
    tree_factory.new_hplm(root, "spam", globex)
    refused(lambda: tree_factory.new_hplm(root, "spam", acme), ErrorCode.CONFLICT, "name")


def test_the_quota_of_hplms_does_not_count_deleted_ones(root: Version, acme: TenantFixture) -> None:
    acme.tenant.quota.max_models = 1
    acme.tenant.quota.save(update_fields=["max_models"])
    model = tree_factory.ready_hplm(root, "spam", acme)
    refused(lambda: tree_factory.new_hplm(root, "ham", acme), ErrorCode.QUOTA_EXCEEDED)
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    tree_factory.new_hplm(root, "ham", acme)


def test_artifacts_fill_the_storage_as_uploads_do_until_their_hplm_is_deleted(
    root: Version, acme: TenantFixture
) -> None:
    spam = tree_factory.ready_hplm(root, "spam", acme)
    tree_factory.ready_domain(root, "law", home=acme)
    own = artifact_bytes(acme.tenant)
    held = {link.artifact for link in VersionArtifact.objects.for_tenant(acme.tenant)}
    assert own == sum(artifact.size for artifact in held) > 0
    Quota.unscoped.filter(tenant=acme.tenant).update(max_storage_bytes=storage_used(acme.tenant) + own)
    for refusal in (
        lambda: tree_factory.new_hplm(root, "ham", acme),
        lambda: hplm_update(hplm=tree_factory.hplm_of(spam), dataset=acme.dataset, actor=None),
        lambda: tree_factory.ready_domain(root, "art", home=acme),
    ):
        error = refused(refusal, ErrorCode.QUOTA_EXCEEDED)
        assert error.details is not None
        assert error.details["quota"] == "bytes of storage"
    hplm_delete(hplm=tree_factory.hplm_of(spam), actor=None)
    tree_factory.new_hplm(root, "ham", acme)


@platform_scope()
def test_the_artifacts_of_others_take_no_room(
    root: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    tree_factory.ready_hplm(root, "spam", globex)
    assert artifact_bytes(acme.tenant) == 0


def test_the_quota_of_active_jobs_is_kept(root: Version, acme: TenantFixture) -> None:
    acme.tenant.quota.max_active_jobs = 3
    acme.tenant.quota.save(update_fields=["max_active_jobs"])
    first = tree_factory.new_hplm(root, "spam", acme)
    refused(lambda: tree_factory.new_hplm(root, "ham", acme), ErrorCode.QUOTA_EXCEEDED)
    job_cancel(job=tree_factory.jobs_in_order(first)[0], actor=None)
    tree_factory.new_hplm(root, "ham", acme)
    refused(lambda: job_retry(job=tree_factory.jobs_in_order(first)[0], actor=None), ErrorCode.QUOTA_EXCEEDED)


def test_deleting_an_hplm_retires_it_and_frees_its_name_and_data(root: Version, acme: TenantFixture) -> None:
    model = tree_factory.ready_hplm(root, "spam", acme)
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=acme.owner)
    model.refresh_from_db()
    assert (model.state, model.dataset) == ("retired", None)
    assert not Alias.unscoped.filter(hplm=model.hplm).exists()
    assert AliasMove.unscoped.filter(hplm=model.hplm, to_version=None).exists()
    again = tree_factory.ready_hplm(root, "spam", acme)
    assert again.hplm != model.hplm
    refused(lambda: hplm_delete(hplm=tree_factory.hplm_of(model), actor=None), ErrorCode.NOT_FOUND, "model")


def test_the_jobs_of_a_deleted_hplm_are_not_retried(root: Version, acme: TenantFixture) -> None:
    version = tree_factory.new_hplm(root, "spam", acme)
    job = tree_factory.jobs_in_order(version)[0]
    job_cancel(job=job, actor=None)
    hplm_delete(hplm=tree_factory.hplm_of(version), actor=None)
    refused(lambda: job_retry(job=job, actor=None), ErrorCode.NOT_FOUND, "model")
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED


def test_moving_an_alias_is_written_down(root: Version, acme: TenantFixture) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    hplm = tree_factory.hplm_of(first)
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    alias_move(hplm=hplm, name="production", version=second, actor=acme.owner)
    alias_move(hplm=hplm, name="production", version=first, actor=acme.owner, reason="slower")
    alias_move(hplm=hplm, name="production", version=first, actor=acme.owner)  # moves nothing
    moves = AliasMove.unscoped.filter(hplm=hplm, name="production").order_by("pk")
    assert [(move.from_version, move.to_version, move.reason) for move in moves] == [
        (None, second, ""),
        (second, first, "slower"),
    ]


def test_an_alias_is_removed_and_its_history_stays_but_the_default_is_not(
    root: Version, acme: TenantFixture
) -> None:
    first = tree_factory.ready_hplm(root, "spam", acme)
    hplm = tree_factory.hplm_of(first)
    alias_move(hplm=hplm, name="production", version=first, actor=acme.owner)
    alias_remove(hplm=hplm, name="production", actor=acme.owner, reason="unused")
    assert [alias.name for alias in hplm.aliases.all()] == ["default"]
    last = AliasMove.unscoped.filter(hplm=hplm, name="production").latest("pk")
    assert (last.from_version, last.to_version, last.reason, last.moved_by) == (
        first, None, "unused", acme.owner,
    )  # fmt: skip
    refused(
        lambda: alias_remove(hplm=hplm, name="production", actor=acme.owner), ErrorCode.NOT_FOUND, "alias"
    )
    refused(lambda: alias_remove(hplm=hplm, name="default", actor=acme.owner), ErrorCode.CONFLICT, "alias")


TRAINED = {"lora": 24, "adapter": 8, "pooling": "cls", "epochs": 3}


def create(key: APIClient, parent: Version, data: int, settings: Mapping[str, Any]) -> Version:
    body = {"name": "spam", "parent": parent.pk, "dataset": data, "settings": settings, "quick": False}
    made = key.post(f"{V1}/models", body)
    assert made.status_code == 201, made.content
    return tree_factory.do_jobs(Version.unscoped.get(pk=made.json()["id"]))


def update(key: APIClient, data: int, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    body = {"dataset": data} | ({} if settings is None else {"settings": settings})
    made = key.post(f"{V1}/models/spam/versions", body)
    assert made.status_code == 201, made.content
    return dict(made.json())


def test_update_keeps_settings_that_it_does_not_name(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    create(key, root, acme.dataset.pk, TRAINED)
    second = update(key, acme.dataset.pk)
    assert second["config"]["settings"] == TRAINED
    assert "warnings" not in second["config"]
    version = Version.unscoped.get(pk=second["id"])
    assert tree_factory.jobs_in_order(version)[0].params["settings"] == TRAINED
    tree_factory.do_jobs(version)
    third = update(key, acme.dataset.pk, {"epochs": 5, "adapter": 8})
    assert third["config"]["settings"] == TRAINED | {"epochs": 5}
    assert "warnings" not in third["config"]


def test_the_version_that_serves_is_the_one_whose_settings_stay(
    root: Version, acme: TenantFixture, key: APIClient
) -> None:
    create(key, root, acme.dataset.pk, TRAINED)
    tree_factory.do_jobs(Version.unscoped.get(pk=update(key, acme.dataset.pk, {"lora": 4})["id"]))
    assert key.put(f"{V1}/models/spam/aliases/default", {"version": 1}).status_code == 200
    assert update(key, acme.dataset.pk)["config"]["settings"] == TRAINED
