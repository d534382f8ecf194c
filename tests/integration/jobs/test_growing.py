"""A domain's table grows from what its traffic missed."""

from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from inference.queueing.misses import MissCounter, missed_fragments
from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from tests.integration.jobs.world import World, finish, store
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import jobs_in_order
from tests.unit.tiny import tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.jobs.models import Job
from versiontree.tree.models import Version, VersionArtifact
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.growth import domain_grow
from workers.runner import run_job

pytestmark = pytest.mark.slow

OFTEN, RARE, LONELY = (7, 8, 9), (9, 8, 7), (8, 8, 8)


@pytest.fixture
def domain(world: World, tmp_path: Path) -> Version:
    """A platform domain with a table of its own, under a root."""
    above = world.ready_root(tmp_path / "root")
    root = tiny_root(tmp_path / "checkpoint")
    lower = tiny_lower(root, seed=1)
    lower.save(tmp_path / "lower")
    tiny_plot(tmp_path / "plot", root, lower, tiny_texts(20), all_unigrams=False, share=0.4)
    text = tree_factory.corpus(None, "domain text")
    version = domain_create(tenant=None, parent=above, name="medicine", corpus=text, actor=None)
    pretrain, build = jobs_in_order(version)
    finish(pretrain, {"lower": tmp_path / "lower"})
    finish(build, {"plot": tmp_path / "plot"})
    return Version.unscoped.get(pk=version.pk)


def table(version: Version) -> str:
    return VersionArtifact.unscoped.get(version=version, role="plot").artifact.digest


def miss(redis: Redis, version: Version, tenant: str, ids: tuple[int, ...], times: int) -> None:
    counter = MissCounter(redis)
    counter.add(table(version), tenant, len(ids), np.array(ids * times, dtype=">i4").tobytes())
    counter.flush()


def grow(version: Version) -> Job:
    grown = domain_grow(domain=tree_factory.domain_of(version), actor=None, settings={"min_count": 5})
    job = jobs_in_order(grown)[0]
    run_job(job.pk)
    return Job.unscoped.select_related("version").get(pk=job.pk)


@pytest.fixture
def traffic(domain: Version, redis: Redis) -> Redis:
    """Three tenants that share their counts, one that does not."""
    for number in range(4):
        Tenant.objects.create(slug=f"t{number}", name=f"T{number}", shares_fragment_counts=number < 3)
        miss(redis, domain, f"t{number}", OFTEN, 2 + number)
        miss(redis, domain, f"t{number}", RARE, 1)
    miss(redis, domain, "t0", LONELY, 100)
    miss(redis, domain, "t1", LONELY, 100)
    miss(redis, domain, "t3", LONELY, 100)
    return redis


def test_what_many_tenants_missed_often_is_added_and_nothing_else(domain: Version, traffic: Redis) -> None:
    job = grow(domain)
    assert (job.state, job.metrics["rows"], job.metrics["misses"]) == ("succeeded", 1, 9)
    version = Version.unscoped.get(pk=job.version.pk)
    assert (version.state, version.parent_id) == ("ready", domain.pk)
    grown = PlotTable.open(store().path("plot", table(version)))
    assert grown.keys.tolist() == fragments.pack(np.array([OFTEN])).tolist()
    inputs = build_inputs(version)
    assert [plot.digest for plot in inputs.plots][:2] == [table(version), table(domain)]
    assert inputs.lower is not None
    lower = LocalLower.load(store().path("lower", inputs.lower.digest))
    assert grown.hidden == lower.architecture.hidden
    assert VersionArtifact.unscoped.get(version=domain, role="lower").artifact == inputs.lower


def test_counts_are_forgotten_once_the_table_has_grown(domain: Version, traffic: Redis) -> None:
    grow(domain)
    assert missed_fragments(traffic, tables=[table(domain)], least_count=1, least_tenants=1) == []


def test_counts_stay_when_the_job_fails(domain: Version, traffic: Redis) -> None:
    Tenant.objects.update(shares_fragment_counts=False)
    job = grow(domain)
    assert (job.state, job.error_code) == ("failed", "too_few_rows")
    assert missed_fragments(traffic, tables=[table(domain)], least_count=5, least_tenants=3)


def test_what_the_tables_hold_by_now_is_not_added_again(domain: Version, traffic: Redis) -> None:
    first = grow(domain)
    for tenant in ("t0", "t1", "t2"):
        miss(traffic, domain, tenant, OFTEN, 5)
    again = grow(Version.unscoped.get(pk=first.version.pk))
    assert (again.state, again.error_code) == ("failed", "too_few_rows")


def test_counts_that_are_no_fragments_of_this_root_are_left_out(domain: Version, redis: Redis) -> None:
    for number in range(3):
        Tenant.objects.create(slug=f"t{number}", name=f"T{number}", shares_fragment_counts=True)
        for ids in ((1, 2), (10**6, 1, 2), (-1, 2, 3)):
            miss(redis, domain, f"t{number}", ids, 9)
    assert grow(domain).error_code == "too_few_rows"


def extended(domain: Version, scratch: Path, seed: int) -> Version:
    """A further version of the domain, with a table of its own."""
    root = tiny_root(scratch / f"checkpoint{seed}")
    lower = tiny_lower(root, seed=seed)
    lower.save(scratch / f"lower{seed}")
    tiny_plot(scratch / f"plot{seed}", root, lower, tiny_texts(20, seed=seed), all_unigrams=False, seed=seed)
    text = tree_factory.corpus(None, f"text {seed}")
    version = domain_update(domain=tree_factory.domain_of(domain), corpus=text, actor=None)
    pretrain, build = jobs_in_order(version)
    finish(pretrain, {"lower": scratch / f"lower{seed}"})
    finish(build, {"plot": scratch / f"plot{seed}"})
    return Version.unscoped.get(pk=version.pk)


def compacted(domain: Version) -> Version:
    version = domain_compact(domain=tree_factory.domain_of(domain), actor=None)
    run_job(jobs_in_order(version)[0].pk)
    return Version.unscoped.get(pk=version.pk)


def test_what_is_missed_under_any_version_of_the_domain_adds_up_and_is_forgotten(
    domain: Version, redis: Redis, tmp_path: Path
) -> None:
    """Also under the tables that a compacted one holds: models that are pinned to those still miss in
    them."""
    second = extended(domain, tmp_path, seed=5)
    third = compacted(second)
    assert table(domain) not in [plot.digest for plot in build_inputs(third).plots]
    versions = (domain, second, third)
    for number, version in enumerate(versions):
        Tenant.objects.create(slug=f"t{number}", name=f"T{number}")
        miss(redis, version, f"t{number}", OFTEN, 2)
        miss(redis, version, f"t{number}", RARE, 1)
    job = grow(third)
    assert (job.state, job.metrics["rows"], job.metrics["misses"]) == ("succeeded", 1, 6)
    assert redis.keys("hmi:misses:*") == []


def test_a_tenant_s_domain_grows_from_what_that_tenant_missed_alone(
    domain: Version, world: World, redis: Redis
) -> None:
    """Also where its table is another domain's too, as it is after an import, or stands on it."""
    Tenant.objects.create(slug="globex", name="Globex")
    own = domain_create(
        tenant=world.tenant, parent=domain, name="ours", corpus=tree_factory.corpus(None, "ours"), actor=None
    )
    pretrain, build = jobs_in_order(own)
    for job, role in ((pretrain, "lower"), (build, "plot")):
        digest = VersionArtifact.unscoped.get(version=domain, role=role).artifact.digest
        finish(job, {role: store().path(role, digest)})
    assert table(Version.unscoped.get(pk=own.pk)) == table(domain)
    miss(redis, domain, "acme", OFTEN, 5)
    miss(redis, domain, "globex", LONELY, 100)
    job = grow(own)
    assert (job.state, job.metrics["rows"], job.metrics["misses"]) == ("succeeded", 1, 5)
    left = missed_fragments(redis, tables=[table(domain)], least_count=1, least_tenants=1)
    assert [(fragment.ids, fragment.count) for fragment in left] == [(LONELY, 100)]


def test_what_those_above_missed_does_not_count_for_a_domain(
    domain: Version, world: World, redis: Redis, tmp_path: Path
) -> None:
    text = tree_factory.corpus(None, "below")
    below = domain_create(tenant=None, parent=domain, name="below", corpus=text, actor=None)
    pretrain, build = jobs_in_order(below)
    root = tiny_root(tmp_path / "again")
    lower = tiny_lower(root, seed=8)
    lower.save(tmp_path / "lower8")
    tiny_plot(tmp_path / "plot8", root, lower, tiny_texts(20, seed=8), all_unigrams=False, seed=8)
    finish(pretrain, {"lower": tmp_path / "lower8"})
    finish(build, {"plot": tmp_path / "plot8"})
    for number in range(3):
        Tenant.objects.create(slug=f"t{number}", name=f"T{number}")
        miss(redis, domain, f"t{number}", OFTEN, 9)
    assert grow(below).error_code == "too_few_rows"
    assert missed_fragments(redis, tables=[table(domain)], least_count=27, least_tenants=3)


def test_a_shared_domain_never_grows_by_what_one_tenant_missed(domain: Version) -> None:
    with pytest.raises(HmiError) as refused:
        domain_grow(domain=tree_factory.domain_of(domain), actor=None, settings={"min_tenants": 1})
    assert (refused.value.code, refused.value.param) == ("invalid_field", "min_tenants")
