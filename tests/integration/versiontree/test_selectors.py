"""Reading the tree: who sees what, and in how many queries."""

from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.tree.models import Hplm, Version
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.selectors.versions import (
    tree_for,
    versions_visible_to,
)
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.hplms import hplm_delete, hplm_update
from versiontree.tree.services.roots import root_register

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def test_a_tenant_sees_the_platforms_tree_and_its_own(
    root: Version, domain: Version, model: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    private = tree_factory.ready_domain(domain, "oncology", home=acme)
    below = tree_factory.ready_hplm(private, "tumours", acme)
    theirs = tree_factory.ready_hplm(root, "theirs", globex)
    seen = [(node.pk, node.tree_depth) for node in tree_for(acme.tenant)]  # type: ignore[attr-defined]
    assert seen == [(root.pk, 0), (domain.pk, 1), (model.pk, 2), (private.pk, 2), (below.pk, 3)]
    assert [node.pk for node in tree_for(globex.tenant)] == [root.pk, domain.pk, theirs.pk]
    assert [node.pk for node in tree_for(None)] == [root.pk, domain.pk]


def test_a_deleted_hplm_leaves_the_tree(model: Version, acme: TenantFixture) -> None:
    hplm_delete(hplm=tree_factory.hplm_of(model), actor=None)
    assert model not in tree_for(acme.tenant)
    assert model not in versions_visible_to(acme.tenant)


def test_a_part_of_the_tree_has_the_same_depths(
    root: Version, domain: Version, model: Version, acme: TenantFixture, globex: TenantFixture
) -> None:
    tree_factory.ready_hplm(tree_factory.ready_domain(domain, "oncology", home=acme), "tumours", acme)
    tree_factory.ready_hplm(root, "theirs", globex)
    whole, seen = tree_for(acme.tenant), list(versions_visible_to(acme.tenant).order_by("pk"))
    walked = [node for at in (0, 2, 4) for node in tree_for(acme.tenant, among=seen[at : at + 2])]
    assert len(whole) == 5
    assert [(node.pk, node.tree_depth) for node in walked] == [  # type: ignore[attr-defined]
        (node.pk, node.tree_depth)  # type: ignore[attr-defined]
        for node in whole
    ]
    assert tree_for(acme.tenant, among=[]) == []


def test_a_tree_of_500_nodes_takes_three_queries(
    root: Version, acme: TenantFixture, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hplms = Hplm.unscoped.bulk_create(
        Hplm(tenant=acme.tenant, name=f"model-{n}", task="tagging") for n in range(100)
    )
    level = [root]
    for depth in range(5):
        parents = level * 100 if depth == 0 else level
        level = Version.unscoped.bulk_create(
            Version(
                kind="model",
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
    root: Version, domain: Version, acme: TenantFixture
) -> None:
    second = tree_factory.do_jobs(
        domain_update(
            domain=tree_factory.domain_of(domain), corpus=tree_factory.corpus(None, "more"), actor=None
        )
    )
    private = tree_factory.ready_domain(second, "oncology", home=acme)
    model = tree_factory.ready_hplm(private, "tumours", acme)
    newer = tree_factory.do_jobs(
        hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None)
    )
    chain = [artifact.digest for artifact in build_inputs(newer).plots]
    root_plot = root.artifact_links.get(role="plot").artifact.digest
    assert chain == [private.digest, second.digest, domain.digest, root_plot]
    assert newer.domain_or_root() == private


def test_build_inputs_are_the_artifacts_of_the_version_and_its_parents(
    root: Version, domain: Version, acme: TenantFixture
) -> None:
    own = {link.role: link.artifact for link in domain.artifact_links.select_related("artifact")}
    above = {link.role: link.artifact for link in root.artifact_links.select_related("artifact")}
    inputs = build_inputs(domain)
    assert (inputs.root, inputs.lower, inputs.plots) == (
        above["root"],
        own["lower"],
        (own["plot"], above["plot"]),
    )
    model = tree_factory.new_hplm(domain, "spam", acme)
    before = build_inputs(model)
    assert (before.lower, before.plots, before.hplm) == (own["lower"], (own["plot"], above["plot"]), None)
    assert before.start_from is None
    tree_factory.do_jobs(model)
    newer = hplm_update(hplm=tree_factory.hplm_of(model), dataset=acme.dataset, actor=None)
    started = build_inputs(newer)
    assert started.start_from == model.artifact_links.get(role="hplm").artifact
    assert started.hplm is None
    tree_factory.do_job(tree_factory.jobs_in_order(newer)[0])
    assert build_inputs(newer).hplm == newer.artifact_links.get(role="hplm").artifact


def test_a_new_root_starts_from_nothing(tmp_path: Path, db: None) -> None:
    version = root_register(
        name="bert",
        source=tree_factory.checkpoint(tmp_path / "ckpt"),
        corpus=tree_factory.corpus(None, "prose"),
        actor=None,
    )
    inputs = build_inputs(version)
    assert (inputs.root, inputs.lower, inputs.plots) == (None, None, ())
