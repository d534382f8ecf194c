"""A second version answers a share of the requests to an alias: how that starts, shows and ends."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import V1, error
from tests.integration.versiontree.refusals import refused
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Alias, AliasMove, Hplm, Version
from versiontree.tree.resolution import resolve_model
from versiontree.tree.selectors.versions import alias_of
from versiontree.tree.services.aliases import alias_move
from versiontree.tree.services.canaries import canary_end, canary_promote, canary_start
from versiontree.tree.services.hplms import hplm_delete, hplm_pin, hplm_update, version_set_policy
from versiontree.tree.serving_manifest import manifest_content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]

AT = f"{V1}/models/spam/aliases/default"


@pytest.fixture
def first(domain: Version, acme: TenantFixture) -> Version:
    return tree_factory.ready_hplm(domain, "spam", acme)


@pytest.fixture
def model(first: Version) -> Hplm:
    return tree_factory.hplm_of(first)


def next_version(model: Hplm, acme: TenantFixture, **options: Any) -> Version:
    """A further version of the model, which is ready and not promoted."""
    options = {"auto_promote": False, **options}
    return tree_factory.do_jobs(hplm_update(hplm=model, dataset=acme.dataset, actor=None, **options))


@pytest.fixture
def second(model: Hplm, acme: TenantFixture) -> Version:
    return next_version(model, acme)


@pytest.fixture
def start(model: Hplm, second: Version) -> Callable[..., Alias]:
    """Starts a canary of 20% with the second version, unless something else is said."""

    def start(**other: Any) -> Alias:
        given: dict[str, Any] = {
            "hplm": model,
            "name": "default",
            "version": second,
            "percent": 20,
            "actor": None,
        }
        return canary_start(**given | other)

    return start


def events(verb: str) -> list[dict[str, Any]]:
    return [event.detail for event in AuditEvent.unscoped.filter(verb=verb).order_by("pk")]


def begun_counts() -> dict[str, Any]:
    """What the versions of the default alias had answered before its canary."""
    counts: dict[str, Any] = Alias.unscoped.get(name="default", hplm__name="spam").canary_counts_before
    return counts


def test_both_versions_are_resolved_in_one_query(
    acme: TenantFixture,
    first: Version,
    second: Version,
    start: Callable[..., Alias],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    version_set_policy(version=second, policy="full", actor=None)
    assert resolve_model(acme.tenant, "spam").canary is None
    start()
    with django_assert_num_queries(1):
        found = resolve_model(acme.tenant, "spam")
    assert found.canary is not None
    assert (found.digest, found.canary.digest) == (first.digest, second.digest)
    assert (found.policy, found.canary.policy, found.canary_percent) == ("", "full", 20)
    for number in (1, 2):
        assert resolve_model(acme.tenant, f"spam:{number}").canary is None


def test_a_canary_s_share_changes_and_its_end_leaves_the_alias_where_it_was(
    acme: TenantFixture, model: Hplm, first: Version, second: Version, start: Callable[..., Alias]
) -> None:
    begun = start(actor=acme.developer).canary_started_at
    assert start(percent=50).canary_started_at == begun
    assert resolve_model(acme.tenant, "spam").canary_percent == 50
    assert begun_counts().keys() == {"1", "2"}
    canary_end(hplm=model, name="default", actor=None)
    found = resolve_model(acme.tenant, "spam")
    assert (found.version_number, found.canary) == (1, None)
    assert begun_counts() == {}
    assert events("alias.canary") == [{"version": 2, "percent": 20}, {"version": 2, "percent": 50}]
    assert events("alias.canary_end") == [{"version": 2, "percent": 50}]
    begun_by = AuditEvent.unscoped.filter(verb="alias.canary").earliest("pk")
    assert (begun_by.subject, begun_by.actor) == ("acme/spam@default", acme.developer)


def test_a_promoted_canary_answers_alone_and_is_in_the_history(
    acme: TenantFixture, model: Hplm, start: Callable[..., Alias]
) -> None:
    start()
    canary_promote(hplm=model, name="default", actor=acme.developer)
    found = resolve_model(acme.tenant, "spam")
    assert (found.version_number, found.canary, begun_counts()) == (2, None, {})
    move = AliasMove.unscoped.latest("pk")
    assert move.from_version is not None
    assert move.to_version is not None
    assert (move.from_version.number, move.to_version.number, move.moved_by) == (1, 2, acme.developer)
    assert "20%" in move.reason


def test_a_move_of_the_alias_ends_its_canary(
    acme: TenantFixture, model: Hplm, first: Version, start: Callable[..., Alias]
) -> None:
    start()
    alias_move(hplm=model, name="default", version=first, actor=None)
    assert alias_of(model, "default").canary is not None, "it points there already"
    next_version(model, acme, auto_promote=True)
    found = resolve_model(acme.tenant, "spam")
    assert (found.version_number, found.canary) == (3, None)
    assert events("alias.move")[-1]["ended_canary"] == 2


def test_invalid_canary_is_refused(
    acme: TenantFixture, model: Hplm, first: Version, domain: Version, start: Callable[..., Alias]
) -> None:
    for percent in (0, 100, -5):
        refused(partial(start, percent=percent), ErrorCode.INVALID_FIELD, "percent")
    refused(lambda: start(version=first), ErrorCode.INVALID_FIELD, "version")
    refused(lambda: start(name="shop"), ErrorCode.NOT_FOUND, "alias")
    other = tree_factory.ready_hplm(domain, "other", acme)
    refused(lambda: start(version=other), ErrorCode.NOT_FOUND, "version")
    unfinished = hplm_update(hplm=model, dataset=acme.dataset, actor=None, auto_promote=False)
    refused(lambda: start(version=unfinished), ErrorCode.MODEL_NOT_READY, "version")
    for change in (canary_promote, canary_end):
        refused(partial(change, hplm=model, name="default", actor=None), ErrorCode.CONFLICT, "alias")
    tree_factory.do_jobs(unfinished)
    hplm_delete(hplm=model, actor=None)
    refused(start, ErrorCode.NOT_FOUND, "model")


def test_the_database_itself_refuses_a_canary_that_cannot_answer(
    acme: TenantFixture, model: Hplm, first: Version, second: Version, start: Callable[..., Alias]
) -> None:
    rows = Alias.unscoped.filter(hplm=model)
    unfinished = hplm_update(hplm=model, dataset=acme.dataset, actor=None, auto_promote=False)
    start()
    for change, said in (
        ({"canary": unfinished}, "ready version of its own model"),
        ({"canary": first}, "alias_canary_is_another_version"),
        ({"canary_percent": 100}, "alias_canary_is_another_version"),
        ({"canary": None}, "alias_canary_is_another_version"),
    ):
        with pytest.raises(IntegrityError, match=said), transaction.atomic():
            rows.update(**change)
    with pytest.raises(DatabaseError, match="is the canary of an alias"), transaction.atomic():
        Version.unscoped.filter(pk=second.pk).update(state="retired")
    tree_factory.do_jobs(unfinished)
    hplm_delete(hplm=model, actor=None)
    assert Version.unscoped.get(pk=second.pk).state == "retired"


def test_a_pinned_model_s_canary_stays_in_memory_too(
    model: Hplm, first: Version, second: Version, start: Callable[..., Alias]
) -> None:
    hplm_pin(hplm=model, actor=None)
    assert manifest_content()["pinned"] == [first.digest]
    start()
    assert manifest_content()["pinned"] == sorted({first.digest, second.digest})


def test_a_canary_over_http(model: Hplm, second: Version, key: APIClient) -> None:
    assert key.get(AT).json()["canary"] is None
    started = key.put(f"{AT}/canary", {"version": 2, "percent": 5})
    assert (started.status_code, started.json()["version"]) == (200, 1)
    shown = key.get(f"{V1}/models/spam").json()["aliases"][0]["canary"]
    assert (shown["version"], shown["percent"]) == (2, 5)
    assert key.get(AT).json()["canary"] == shown
    assert key.put(f"{AT}/canary", {"version": 2, "percent": 0.5}).status_code == 422
    assert error(key.put(f"{AT}/canary", {"version": 9, "percent": 5})) == (404, "not_found", "version")
    assert key.delete(f"{AT}/canary").status_code == 204
    assert error(key.delete(f"{AT}/canary")) == (409, "conflict", "alias")
    key.put(f"{AT}/canary", {"version": 2, "percent": 5})
    promoted = key.post(f"{AT}/canary/promote").json()
    assert (promoted["version"], promoted["canary"]) == (2, None)
