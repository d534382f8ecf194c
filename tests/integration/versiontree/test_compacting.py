"""A chain of tables is compacted into a version of its own; what others pin stays as it is."""

import pytest

from tenants.base.errors import ErrorCode, HmiError
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture, do_jobs, jobs_in_order
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel, job_requeue, job_retry
from versiontree.tree.models import Version, VersionArtifact
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.services.compaction import MAX_CHAIN_LENGTH, domain_compact, domains_compact_due
from versiontree.tree.services.domains import domain_update
from versiontree.tree.serving_manifest import manifest_content

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("in_platform_scope")]


def longer(version: Version, tables: int) -> Version:
    """Update a domain until it reads so many tables of its own."""
    for number in range(tables - len(plots(version)) + 1):
        text = tree_factory.corpus(None, f"{version.name}-more-{number}-{version.pk}")
        version = do_jobs(domain_update(domain=tree_factory.domain_of(version), corpus=text, actor=None))
    return version


def plots(version: Version) -> list[str]:
    return [artifact.digest for artifact in build_inputs(version).plots]


def own_plot(version: Version) -> str:
    return VersionArtifact.unscoped.get(version=version, role="plot").artifact.digest


def test_the_new_version_reads_its_own_table_and_the_roots_and_an_update_of_it_one_more(
    root: Version, domain: Version
) -> None:
    with pytest.raises(HmiError) as single:
        domain_compact(domain=tree_factory.domain_of(domain), actor=None)
    assert single.value.code == ErrorCode.NOT_FOUND
    tip = longer(domain, 3)
    before = plots(tip)
    compacted = do_jobs(domain_compact(domain=tree_factory.domain_of(tip), actor=None))
    assert jobs_in_order(compacted)[0].params["plots"] == before[:-1]
    assert plots(compacted) == [own_plot(compacted), own_plot(root)]
    assert plots(tip) == before
    text = tree_factory.corpus(None, "even more")
    updated = do_jobs(domain_update(domain=tree_factory.domain_of(compacted), corpus=text, actor=None))
    assert plots(updated) == [own_plot(updated), *plots(compacted)]


def test_a_job_that_grew_a_table_from_traffic_is_not_retried(domain: Version) -> None:
    compacting = domain_compact(domain=tree_factory.domain_of(longer(domain, 3)), actor=None)
    (job,) = jobs_in_order(compacting)
    job_cancel(job=job, actor=None)
    Job.unscoped.filter(pk=job.pk).update(params={"tables": [], "settings": {}})  # as a migration leaves it
    for retry in (job_retry, job_requeue):
        with pytest.raises(HmiError, match="no longer possible") as refusal:
            retry(job=Job.unscoped.get(pk=job.pk), actor=None)
        assert refusal.value.code == ErrorCode.INVALID_TRANSITION
    assert Job.unscoped.get(pk=job.pk).state == "cancelled"


def test_a_model_keeps_its_tables_and_a_new_one_gets_fewer(domain: Version, acme: TenantFixture) -> None:
    tip = longer(domain, 3)
    old = tree_factory.ready_hplm(tip, "old", acme)
    served = manifest_content()["hplms"]["acme/old:1"]["plots"]
    compacted = do_jobs(domain_compact(domain=tree_factory.domain_of(tip), actor=None))
    new = tree_factory.ready_hplm(compacted, "new", acme)
    found = manifest_content()["hplms"]
    assert found["acme/old:1"]["plots"] == served == plots(old)
    assert found["acme/new:1"]["plots"] == plots(new) == plots(compacted)
    assert len(plots(new)) == 2


def test_a_chain_that_passes_the_bound_is_compacted_by_itself_once_even_if_that_fails(
    domain: Version,
) -> None:
    tip = longer(domain, MAX_CHAIN_LENGTH)
    assert domains_compact_due() == 0
    tip = longer(tip, MAX_CHAIN_LENGTH + 1)
    assert domains_compact_due() == 1
    assert domains_compact_due() == 0
    newest = Version.unscoped.filter(domain=tip.domain).latest("number")
    (job,) = jobs_in_order(newest)
    job_cancel(job=job, actor=None)
    assert domains_compact_due() == 0
    job_retry(job=Job.unscoped.get(pk=job.pk), actor=None)
    assert len(plots(do_jobs(newest))) == 2
    assert domains_compact_due() == 0
