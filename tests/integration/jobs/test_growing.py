"""A domain's table grows from what its traffic missed."""

from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from inference.queueing.misses import MissCounter, missed_fragments
from tenants.models import Tenant
from tests.integration.jobs.world import World, finish, store
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import jobs_in_order
from tests.unit.tiny import tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.models import Job, Version, VersionArtifact
from versiontree.selectors import build_inputs
from versiontree.services.domains import domain_create
from versiontree.services.grow import domain_grow
from workers.runner import run_job

OFTEN, RARE, LONELY = (7, 8, 9), (9, 8, 7), (8, 8, 8)


@pytest.fixture
def domain(world: World, tmp_path: Path) -> Version:
    """A platform domain with a table of its own, under a root."""
    above = world.ready_root(tmp_path / "root")
    root = tiny_root(tmp_path / "checkpoint")
    lower = tiny_lower(root, seed=1)
    lower.save(tmp_path / "lower")
    tiny_plot(tmp_path / "plot", root, lower, tiny_texts(20), all_unigrams=False, share=0.4)
    text = grove.corpus(None, "domain text")
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
    grown = domain_grow(domain=grove.domain_of(version), actor=None, settings={"minimum_count": 5})
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
    version = Version.unscoped.get(pk=job.version_id)
    assert (version.state, version.parent_id) == ("ready", domain.pk)
    grown = PlotTable.open(store().path("plot", table(version)))
    assert grown.keys.tolist() == fragments.pack(np.array([OFTEN])).tolist()
    inputs = build_inputs(version)
    assert [plot.digest for plot in inputs.plots][:2] == [table(version), table(domain)]
    assert inputs.lower is not None
    lower = LocalLower.load(store().path("lower", inputs.lower.digest))
    assert grown.hidden == lower.shape.hidden
    assert VersionArtifact.unscoped.get(version=domain, role="lower").artifact == inputs.lower


def test_counts_are_forgotten_once_the_table_has_grown(domain: Version, traffic: Redis) -> None:
    grow(domain)
    assert missed_fragments(traffic, table(domain), least_count=1, least_tenants=1) == []


def test_counts_stay_when_the_job_fails(domain: Version, traffic: Redis) -> None:
    Tenant.objects.update(shares_fragment_counts=False)
    job = grow(domain)
    assert (job.state, job.error_code) == ("failed", "too_few_rows")
    assert missed_fragments(traffic, table(domain), least_count=5, least_tenants=3)


def test_what_the_tables_hold_by_now_is_not_added_again(domain: Version, traffic: Redis) -> None:
    first = grow(domain)
    for tenant in ("t0", "t1", "t2"):
        miss(traffic, domain, tenant, OFTEN, 5)
    again = grow(Version.unscoped.get(pk=first.version_id))
    assert (again.state, again.error_code) == ("failed", "too_few_rows")


def test_counts_that_are_no_fragments_of_this_root_are_left_out(domain: Version, redis: Redis) -> None:
    for number in range(3):
        Tenant.objects.create(slug=f"t{number}", name=f"T{number}", shares_fragment_counts=True)
        for ids in ((1, 2), (10**6, 1, 2), (-1, 2, 3)):
            miss(redis, domain, f"t{number}", ids, 9)
    assert grow(domain).error_code == "too_few_rows"
