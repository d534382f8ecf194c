"""A version tree in PostgreSQL: one root, one domain of the platform, and two tenants."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from tenants.accounts.models import User
from tenants.base.scope import tenant_scope
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.callers import signed_in, with_key
from tests.integration.versiontree.tree_factory import TenantFixture
from versiontree.jobs.models import Job
from versiontree.tree.models import Version


@pytest.fixture(autouse=True)
def own_artifacts(artifact_root: Path) -> Path:
    """Every test has a store of its own."""
    return artifact_root


@pytest.fixture(autouse=True)
def broker(redis_url: str) -> str:
    """Nudges go to a real broker."""
    return redis_url


@pytest.fixture
def acme(db: None) -> TenantFixture:
    return tree_factory.create_tenant("acme")


@pytest.fixture
def in_acme_scope(acme: TenantFixture) -> Iterator[None]:
    """Show the rows of acme and the shared ones of the platform, as a request by acme does."""
    with tenant_scope(acme.tenant):
        yield


@pytest.fixture
def globex(db: None) -> TenantFixture:
    return tree_factory.create_tenant("globex")


@pytest.fixture
def root(db: None, tmp_path: Path) -> Version:
    return tree_factory.ready_root(tmp_path)


@pytest.fixture
def domain(root: Version) -> Version:
    return tree_factory.ready_domain(root, "biomedicine")


@pytest.fixture
def model(domain: Version, acme: TenantFixture) -> Version:
    """A ready model, `spam`, below the domain."""
    return tree_factory.ready_hplm(domain, "spam", acme)


@pytest.fixture
def building(root: Version, acme: TenantFixture) -> Version:
    """A model whose two jobs, `tuning` and `evaluating`, are still to be done."""
    return tree_factory.new_hplm(root, "spam", acme)


@pytest.fixture
def tuning(building: Version) -> Job:
    return tree_factory.jobs_in_order(building)[0]


@pytest.fixture
def evaluating(building: Version) -> Job:
    return tree_factory.jobs_in_order(building)[1]


@pytest.fixture
def key(acme: TenantFixture) -> APIClient:
    """A client with a key of acme's for everything that is managed."""
    return with_key(acme, "manage")


@pytest.fixture
def staff(db: None) -> APIClient:
    return signed_in(User.objects.create_superuser("boss"))
