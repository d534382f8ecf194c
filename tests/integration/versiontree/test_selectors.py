"""Reading the tree: what a reference means, who sees what, and in how many queries."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from tenants.errors import ErrorCode, HmiError
from tenants.remembering import moments
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import Household
from tests.processes import wait_until
from versiontree.models import Hplm, Job, Version
from versiontree.resolving import resolve_model, resolve_model_lately
from versiontree.selectors import (
    build_inputs,
    domain_of,
    domains_visible_to,
    hplm_of,
    job_detail,
    job_events,
    jobs_of,
    parents_ready_for,
    tree_for,
    version_visible_to,
    versions_visible_to,
)
from versiontree.services.aliases import alias_move
from versiontree.services.domains import domain_update
from versiontree.services.hplms import hplm_delete, hplm_update
from versiontree.services.roots import root_register

pytestmark = pytest.mark.django_db


@pytest.fixture
def model(domain: Version, acme: Household) -> Version:
    return grove.ready_hplm(domain, "spam", acme)


@pytest.fixture
def remembering(settings: Settings) -> Iterator[Settings]:
    """For a minute, which models were meant."""
    settings.HMI_MODEL_CACHE_S = 60.0
    moments().clear()
    yield settings
    moments().clear()


def number_of(acme: Household, reference: str) -> int:
    """The version that a reference meant of late."""
    return resolve_model_lately(acme.tenant, reference).version_number


def refusal(acme: Household, reference: str) -> ErrorCode:
    with pytest.raises(HmiError) as caught:
        resolve_model(acme.tenant, reference)
    assert caught.value.param == "model"
    return caught.value.code


def test_a_reference_means_the_default_an_alias_or_a_number(model: Version, acme: Household) -> None:
    hplm = grove.hplm_of(model)
    second = grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
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
    assert (resolved.tenant_slug, resolved.hplm_name, resolved.digest) == ("acme", "spam", second.digest)
    assert (resolved.task, resolved.labels, resolved.hplm_id) == ("classification", ("no", "yes"), hplm.pk)
    root = Version.unscoped.get(kind="root")
    assert (resolved.root, resolved.root_digest) == (root.name, root.digest)


def test_resolving_takes_one_query(
    model: Version, acme: Household, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for reference in ("acme/spam", "spam:1"):
        with django_assert_num_queries(1):
            resolve_model(acme.tenant, reference)


def test_a_promotion_and_a_rollback_show_once_the_time_is_over(
    model: Version, acme: Household, remembering: Settings
) -> None:
    remembering.HMI_MODEL_CACHE_S = 0.2
    assert number_of(acme, "spam") == 1
    grove.do_jobs(hplm_update(hplm=grove.hplm_of(model), dataset=acme.dataset, actor=None))
    wait_until(lambda: number_of(acme, "spam") == 2)
    alias_move(hplm=grove.hplm_of(model), name="default", version=model, actor=None)
    wait_until(lambda: number_of(acme, "spam") == 1)
    hplm_delete(hplm=grove.hplm_of(model), actor=None)
    with pytest.raises(HmiError, match="no such hPLM"):
        wait_until(lambda: number_of(acme, "spam") != 1)


def test_until_then_a_reference_means_what_it_meant_and_asks_nothing(
    model: Version, acme: Household, remembering: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert [number_of(acme, reference) for reference in ("spam", "spam:1")] == [1, 1]
    grove.do_jobs(hplm_update(hplm=grove.hplm_of(model), dataset=acme.dataset, actor=None))
    with django_assert_num_queries(0):
        assert [number_of(acme, reference) for reference in ("acme/spam", "spam@default", "spam:1")] == [
            1
        ] * 3
    assert number_of(acme, "spam:2") == 2


def test_an_alias_that_looks_like_a_number_is_none(
    model: Version, acme: Household, remembering: Settings
) -> None:
    hplm = grove.hplm_of(model)
    second = grove.do_jobs(hplm_update(hplm=hplm, dataset=acme.dataset, actor=None))
    alias_move(hplm=hplm, name="1", version=second, actor=None)
    assert [number_of(acme, reference) for reference in ("spam@1", "spam:1", "spam@1")] == [2, 1, 2]


def test_what_was_not_there_is_there_as_soon_as_it_is(
    root: Version, acme: Household, remembering: Settings
) -> None:
    with pytest.raises(HmiError, match="no such hPLM"):
        number_of(acme, "spam")
    version = grove.new_hplm(root, "spam", acme)
    with pytest.raises(HmiError, match="it is building"):
        number_of(acme, "spam")
    grove.do_jobs(version)
    assert number_of(acme, "spam") == 1


def test_what_is_remembered_of_one_tenant_is_not_another_s(
    model: Version, acme: Household, globex: Household, remembering: Settings
) -> None:
    assert number_of(acme, "acme/spam") == 1
    for reference in ("acme/spam", "spam"):
        with pytest.raises(HmiError, match="no such hPLM"):
            number_of(globex, reference)


@pytest.mark.parametrize(
    "reference", ["ham", "spam@nothing", "spam:7", "globex/spam", "globex/ham", "nobody/spam"]
)
def test_what_is_absent_and_what_is_foreign_look_the_same(
    reference: str, model: Version, acme: Household, globex: Household
) -> None:
    assert refusal(acme, reference) == ErrorCode.NOT_FOUND


def test_another_tenants_model_is_not_found(model: Version, globex: Household) -> None:
    assert refusal(globex, "acme/spam") == ErrorCode.NOT_FOUND
    assert refusal(globex, "spam") == ErrorCode.NOT_FOUND


def test_what_is_still_being_built_is_not_ready(root: Version, acme: Household) -> None:
    grove.new_hplm(root, "spam", acme)
    assert refusal(acme, "spam") == ErrorCode.MODEL_NOT_READY
    assert refusal(acme, "spam:1") == ErrorCode.MODEL_NOT_READY
    with pytest.raises(HmiError, match="Version 1 of the hPLM spam cannot answer: it is building"):
        resolve_model(acme.tenant, "spam")
    assert refusal(acme, "spam@stable") == ErrorCode.NOT_FOUND


def test_a_deleted_model_is_not_found(model: Version, acme: Household) -> None:
    hplm_delete(hplm=grove.hplm_of(model), actor=None)
    for reference in ("spam", "spam:1"):
        assert refusal(acme, reference) == ErrorCode.NOT_FOUND


def test_a_tenant_sees_the_platforms_tree_and_its_own(
    root: Version, domain: Version, model: Version, acme: Household, globex: Household
) -> None:
    private = grove.ready_domain(domain, "oncology", home=acme)
    below = grove.ready_hplm(private, "tumours", acme)
    theirs = grove.ready_hplm(root, "theirs", globex)
    seen = [(node.pk, node.tree_depth) for node in tree_for(acme.tenant)]  # type: ignore[attr-defined]
    assert seen == [(root.pk, 0), (domain.pk, 1), (model.pk, 2), (private.pk, 2), (below.pk, 3)]
    assert [node.pk for node in tree_for(globex.tenant)] == [root.pk, domain.pk, theirs.pk]
    assert [node.pk for node in tree_for(None)] == [root.pk, domain.pk]


def test_a_deleted_hplm_leaves_the_tree(model: Version, acme: Household) -> None:
    hplm_delete(hplm=grove.hplm_of(model), actor=None)
    assert model not in tree_for(acme.tenant)
    assert model not in versions_visible_to(acme.tenant)


def test_a_part_of_the_tree_has_the_same_depths(
    root: Version, domain: Version, model: Version, acme: Household, globex: Household
) -> None:
    grove.ready_hplm(grove.ready_domain(domain, "oncology", home=acme), "tumours", acme)
    grove.ready_hplm(root, "theirs", globex)
    whole, seen = tree_for(acme.tenant), list(versions_visible_to(acme.tenant).order_by("pk"))
    walked = [node for at in (0, 2, 4) for node in tree_for(acme.tenant, among=seen[at : at + 2])]
    assert len(whole) == 5
    assert [(node.pk, node.tree_depth) for node in walked] == [  # type: ignore[attr-defined]
        (node.pk, node.tree_depth)  # type: ignore[attr-defined]
        for node in whole
    ]
    assert tree_for(acme.tenant, among=[]) == []


def test_a_tree_of_500_nodes_takes_three_queries(
    root: Version, acme: Household, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hplms = Hplm.unscoped.bulk_create(
        Hplm(tenant=acme.tenant, name=f"model-{n}", task="tagging") for n in range(100)
    )
    level = [root]
    for depth in range(5):
        parents = level * 100 if depth == 0 else level
        level = Version.unscoped.bulk_create(
            Version(
                kind="hplm",
                hplm=hplm,
                parent=parent,
                root=root.root,
                tenant=acme.tenant,
                number=depth + 1,
                state="ready",
                digest=f"{n:064x}",
                ready_at=root.ready_at,
            )
            for n, (hplm, parent) in enumerate(zip(hplms, parents, strict=False))
        )
    with django_assert_num_queries(3):
        nodes = tree_for(acme.tenant)
        names = [node.name for node in nodes]
    assert len(names) == 501
    assert max(node.tree_depth for node in nodes) == 5  # type: ignore[attr-defined]
    with CaptureQueriesContext(connection) as queries:
        assert len(build_inputs(level[0]).plots) == 1
    assert len(queries) == 2


def test_a_plot_chain_goes_from_the_nearest_domain_to_the_root(
    root: Version, domain: Version, acme: Household
) -> None:
    second = grove.do_jobs(
        domain_update(domain=grove.domain_of(domain), corpus=grove.corpus(None, "more"), actor=None)
    )
    private = grove.ready_domain(second, "oncology", home=acme)
    model = grove.ready_hplm(private, "tumours", acme)
    newer = grove.do_jobs(hplm_update(hplm=grove.hplm_of(model), dataset=acme.dataset, actor=None))
    chain = [artifact.digest for artifact in build_inputs(newer).plots]
    root_plot = root.artifact_links.get(role="plot").artifact.digest
    assert chain == [private.digest, second.digest, domain.digest, root_plot]
    assert newer.domain_or_root() == private


def test_a_job_finds_what_it_builds_on(root: Version, domain: Version, acme: Household) -> None:
    own = {link.role: link.artifact for link in domain.artifact_links.select_related("artifact")}
    above = {link.role: link.artifact for link in root.artifact_links.select_related("artifact")}
    inputs = build_inputs(domain)
    assert (inputs.root, inputs.lower, inputs.plots) == (
        above["root"],
        own["lower"],
        (own["plot"], above["plot"]),
    )
    model = grove.new_hplm(domain, "spam", acme)
    before = build_inputs(model)
    assert (before.lower, before.plots, before.hplm) == (own["lower"], (own["plot"], above["plot"]), None)
    assert before.start_from is None
    grove.do_jobs(model)
    newer = hplm_update(hplm=grove.hplm_of(model), dataset=acme.dataset, actor=None)
    started = build_inputs(newer)
    assert started.start_from == model.artifact_links.get(role="hplm").artifact
    assert started.hplm is None
    grove.do_job(grove.jobs_in_order(newer)[0])
    assert build_inputs(newer).hplm == newer.artifact_links.get(role="hplm").artifact


def test_a_new_root_starts_from_nothing(tmp_path: Path, db: None) -> None:
    version = root_register(
        name="bert",
        source=grove.checkpoint(tmp_path / "ckpt"),
        corpus=grove.corpus(None, "prose"),
        actor=None,
    )
    inputs = build_inputs(version)
    assert (inputs.root, inputs.lower, inputs.plots) == (None, None, ())


def test_foreign_rows_are_not_found(
    root: Version, model: Version, acme: Household, globex: Household
) -> None:
    private = grove.ready_domain(root, "secret", home=acme)
    job = Job.unscoped.filter(version=model).first()
    assert job is not None
    attempts = (
        lambda: version_visible_to(globex.tenant, model.pk),
        lambda: version_visible_to(None, model.pk),
        lambda: domain_of(globex.tenant, grove.domain_of(private).pk),
        lambda: domain_of(None, grove.domain_of(private).pk),
        lambda: hplm_of(globex.tenant, "spam"),
        lambda: job_detail(globex.tenant, job.pk),
        lambda: job_detail(None, job.pk),
        lambda: job_detail(acme.tenant, "no uuid"),
    )
    for attempt in attempts:
        with pytest.raises(HmiError) as caught:
            attempt()
        assert caught.value.code == ErrorCode.NOT_FOUND
    assert grove.domain_of(private) not in domains_visible_to(globex.tenant)
    assert private not in parents_ready_for(globex.tenant)
    assert not jobs_of(globex.tenant).exists()


def test_events_are_read_on_from_the_last_one_seen(model: Version) -> None:
    job = grove.jobs_in_order(model)[0]
    first, *rest = job_events(job)
    assert list(job_events(job, after=first.pk)) == rest
    assert list(job_events(job, after=rest[-1].pk)) == []
