"""`manage.py populate`: more models like one that is there, and their past."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from inference.hplm.hplm import Hplm as Model
from tenants.usage.models import UsageDay
from tests.integration.jobs.world import World, store
from tests.unit.tiny import tiny_hplms, tiny_root
from versiontree.jobs.models import Job
from versiontree.tree.models import Hplm, Version


@pytest.fixture
def like(world: World, tmp_path: Path) -> Version:
    """A model called mood, made by hand."""
    root = world.ready_root(tmp_path / "root")
    [model] = tiny_hplms(tiny_root(tmp_path / "again"), 1)
    return world.ready_hplm(root, model, tmp_path, name="mood")


def test_populate_adds_models_to_one_tenant_after_existing_ones(like: Version) -> None:
    own = Job.unscoped.filter(version=like).count()
    for _ in range(2):
        call_command("populate", "acme/mood", tenant="acme", models=3, jobs=4, usage=6)
    names = Hplm.unscoped.filter(tenant__slug="acme").order_by("name").values_list("name", flat=True)
    assert [*names] == ["mood", *(f"mood-{number:05}" for number in range(1, 7))]
    made = Version.unscoped.filter(hplm__name__startswith="mood-")
    weights = [Model.load(store().path("hplm", one.digest)).head.weight for one in made]
    assert not any((weights[0] == other).all() for other in weights[1:])
    assert Job.unscoped.filter(version=like).count() == own
    assert Job.unscoped.filter(version__in=made, state__in=["succeeded", "failed", "cancelled"]).count() == 8
    assert not UsageDay.unscoped.filter(model_name="mood").exists()
    assert UsageDay.unscoped.filter(model_name__startswith="mood-").count() >= 6


def test_a_tenant_that_is_not_there_is_named(like: Version) -> None:
    with pytest.raises(CommandError, match="nobody"):
        call_command("populate", "acme/mood", tenant="nobody", models=3)
    assert Hplm.unscoped.count() == 1
