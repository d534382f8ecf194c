"""Who may follow a job, as the thread that looks for all who do finds out."""

from pathlib import Path

import pytest

from frontend.job_stream import Subscription, read_marks
from tenants.accounts.models import Membership, User
from tenants.accounts.services.members import member_remove
from tenants.accounts.services.tenants import tenant_suspend
from tests.e2e.world import World, world_build
from tests.integration.versiontree.tree_factory import jobs_in_order


@pytest.fixture
def world(transactional_db: None, artifact_root: Path, upload_root: Path) -> World:
    """One that other connections see."""
    return world_build()


def test_a_job_is_followed_by_those_only_who_may_still_see_it(world: World) -> None:
    job = jobs_in_order(world.hplm)[0].pk
    people = (world.owner, world.developer, world.viewer)
    subscriptions = [
        Subscription(job, Membership.unscoped.get(tenant=world.tenant, user=one).pk) for one in people
    ]
    assert set(read_marks(subscriptions)) == set(subscriptions)
    member_remove(membership=Membership.unscoped.get(tenant=world.tenant, user=world.developer))
    User.objects.filter(pk=world.viewer.pk).update(is_active=False)
    assert set(read_marks(subscriptions)) == {subscriptions[0]}
    tenant_suspend(tenant=world.tenant, actor=world.admin)
    assert read_marks(subscriptions) == {}
