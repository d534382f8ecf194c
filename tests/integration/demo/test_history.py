"""The past of a populated installation: as much of it as was asked for."""

from pathlib import Path

import pytest

from benchmarks.serving.over_http.crowd import crowd
from demo.history import usage_create
from tenants.usage.models import LoggedRequest, UsageDay
from tests.integration.versiontree.tree_factory import create_tenant, ready_hplm, ready_root
from versiontree.jobs.models import TERMINAL, Job, JobEvent
from versiontree.tree.models import Version

pytestmark = pytest.mark.django_db


def test_jobs_and_usage_are_made_up_in_the_number_asked_for(
    artifact_root: Path, upload_root: Path, tmp_path: Path
) -> None:
    home = create_tenant("acme")
    like = ready_hplm(ready_root(tmp_path), "mood", home)
    before = Job.unscoped.count()
    crowd(home.tenant, like, hplms=20, jobs=61, usage=50)
    made = Job.unscoped.filter(version__hplm__name__startswith="crowd-")
    assert Job.unscoped.count() == before + made.count() == before + 61
    assert set(made.values_list("state", flat=True)) == {"succeeded", "failed", "cancelled"} <= TERMINAL
    assert JobEvent.unscoped.filter(job__in=made).count() >= 61
    assert UsageDay.unscoped.count() == 50
    assert UsageDay.unscoped.values("day").distinct().count() == 3
    logged = LoggedRequest.unscoped.all()
    assert (logged.count(), logged.exclude(error_code="").count()) == (50, 2)
    versions = Version.unscoped.filter(hplm__name__startswith="crowd-").select_related("hplm").order_by("pk")
    usage_create(versions=list(versions), count=60)
    assert UsageDay.unscoped.count() == 60
