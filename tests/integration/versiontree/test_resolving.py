"""What a reference means, for whom, and for how long."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope
from tenants.base.ttl_cache import process_cache
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.processes import wait_until
from versiontree.tree import resolution
from versiontree.tree.models import Version
from versiontree.tree.resolution import resolve_model, resolve_model_cached
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.hplms import hplm_delete, hplm_update
from versiontree.tree.services.version_completion import artifacts_attach, version_finish
from versiontree.tree.services.versions import version_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_acme_scope")]


@pytest.fixture
def remembering(settings: Settings) -> Iterator[Settings]:
    """For a minute, which models were meant."""
    settings.HMI_MODEL_CACHE_S = 60.0
    process_cache().clear()
    yield settings
    process_cache().clear()


def number_of(acme: TenantFixture, reference: str) -> int:
    """The version that a reference meant of late."""
    return resolve_model_cached(acme.tenant, reference).version_number


def refusal(acme: TenantFixture, reference: str) -> ErrorCode:
    with pytest.raises(HmiError) as caught:
        resolve_model(acme.tenant, reference)
    assert caught.value.param == "model"
    return caught.value.code


def test_a_reference_means_the_default_an_alias_or_a_number(model: Version, acme: TenantFixture) -> None:
    hplm = tree_factory.hplm_of(model)
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    alias_move(hplm=hplm, name="stable", version=model, actor=None)
    found = {
        reference: resolve_model(acme.tenant, reference).version_number
        for reference in ("spam", "acme/spam", "spam@default", "spam@stable", "acme/spam:1", "spam:2")
    }
    assert found == {
        "spam": 2,
        "acme/spam": 2,
        "spam@default": 2,
        "spam@stable": 1,
        "acme/spam:1": 1,
        "spam:2": 2,
    }
    resolved = resolve_model(acme.tenant, "spam")
    assert (resolved.tenant_slug, resolved.model_name, resolved.digest) == ("acme", "spam", second.digest)
    assert (resolved.task, resolved.labels, resolved.hplm_id) == ("classification", ("no", "yes"), hplm.pk)
    root = Version.unscoped.get(kind="root")
    assert (resolved.root, resolved.root_digest) == (root.name, root.digest)


def test_the_root_of_a_model_is_the_nearest_version_of_it(root: Version, acme: TenantFixture) -> None:
    """Versions of a root stood on one another once, and come so in archives."""
    with platform_scope():
        second = version_create(
            owner=root.root, root=root.root, parent=root, tenant=None, config={}, plans=[], actor=None
        )
        artifacts_attach(
            version=second,
            artifacts=[(role, tree_factory.stored(role)) for role in ("root", "lower", "plot")],
        )
        version_finish(version=second, metrics={})
        second.refresh_from_db()
    for name, base in (("old", root), ("new", second)):
        tree_factory.ready_hplm(base, name, acme)
        assert resolve_model(acme.tenant, name).root_digest == base.digest


def test_a_promotion_and_a_rollback_show_once_the_time_is_over(
    model: Version, acme: TenantFixture, remembering: Settings
) -> None:
    remembering.HMI_MODEL_CACHE_S = 0.2
    assert number_of(acme, "spam") == 1
    tree_factory.do_jobs(hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None))
    wait_until(lambda: number_of(acme, "spam") == 2)
    alias_move(hplm=tree_factory.hplm_of(model), name="default", version=model, actor=None)
    wait_until(lambda: number_of(acme, "spam") == 1)
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    with pytest.raises(HmiError, match="no such model"):
        wait_until(lambda: number_of(acme, "spam") != 1)


def test_cached_reference_needs_no_query(
    model: Version,
    acme: TenantFixture,
    remembering: Settings,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    assert [number_of(acme, reference) for reference in ("spam", "spam:1")] == [1, 1]
    tree_factory.do_jobs(hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None))
    with django_assert_num_queries(0):
        assert [number_of(acme, reference) for reference in ("acme/spam", "spam@default", "spam:1")] == [
            1
        ] * 3
    assert number_of(acme, "spam:2") == 2


def test_an_alias_that_looks_like_a_number_is_none(
    model: Version, acme: TenantFixture, remembering: Settings
) -> None:
    hplm = tree_factory.hplm_of(model)
    second = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    alias_move(hplm=hplm, name="1", version=second, actor=None)
    assert [number_of(acme, reference) for reference in ("spam@1", "spam:1", "spam@1")] == [2, 1, 2]


def test_missing_model_is_not_cached(root: Version, acme: TenantFixture, remembering: Settings) -> None:
    with pytest.raises(HmiError, match="no such model"):
        number_of(acme, "spam")
    version = tree_factory.new_hplm(root, "spam", acme)
    with pytest.raises(HmiError, match="it is training"):
        number_of(acme, "spam")
    tree_factory.do_jobs(version)
    assert number_of(acme, "spam") == 1


@platform_scope()
def test_cached_reference_of_another_tenant_is_not_found(
    model: Version, acme: TenantFixture, globex: TenantFixture, remembering: Settings
) -> None:
    assert number_of(acme, "acme/spam") == 1
    for reference in ("acme/spam", "spam"):
        with pytest.raises(HmiError, match="no such model"):
            number_of(globex, reference)


@platform_scope()
def test_absent_and_foreign_references_get_the_same_error(
    model: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    for reference in ("ham", "spam@nothing", "spam:7", "globex/spam", "globex/ham", "nobody/spam"):
        assert refusal(acme, reference) == ErrorCode.NOT_FOUND


def test_model_in_training_is_not_ready(root: Version, acme: TenantFixture) -> None:
    tree_factory.new_hplm(root, "spam", acme)
    assert refusal(acme, "spam") == ErrorCode.MODEL_NOT_READY
    assert refusal(acme, "spam:1") == ErrorCode.MODEL_NOT_READY
    with pytest.raises(HmiError, match="Version 1 of the model spam cannot answer: it is training"):
        resolve_model(acme.tenant, "spam")
    assert refusal(acme, "spam@stable") == ErrorCode.NOT_FOUND


def test_missing_version_error_lists_versions_and_aliases_newest_first(
    model: Version, acme: TenantFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hplm = tree_factory.hplm_of(model)
    newer = tree_factory.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    for name in ("zebra", "blue"):
        alias_move(hplm=hplm, name=name, version=newer, actor=None)
    monkeypatch.setattr(resolution, "MAX_LISTED", 1)
    with pytest.raises(HmiError) as caught:
        resolve_model(acme.tenant, "spam:3")
    assert "Ready versions: 1-2. Aliases: blue and 2 more." in caught.value.message
    assert caught.value.details == {"versions": [2], "aliases": ["blue"]}


def test_a_deleted_model_is_not_found(model: Version, acme: TenantFixture) -> None:
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    for reference in ("spam", "spam:1"):
        assert refusal(acme, reference) == ErrorCode.NOT_FOUND
