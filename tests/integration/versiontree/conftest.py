"""A grove on real PostgreSQL: one root, one platform domain, two tenants who are strangers to each other."""

from pathlib import Path

import pytest
from rest_framework.test import APIClient

from tenants.accounts.models import User
from tests.integration.versiontree import grove
from tests.integration.versiontree.callers import signed_in
from tests.integration.versiontree.grove import Household
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
def acme(db: None) -> Household:
    return grove.household("acme")


@pytest.fixture
def globex(db: None) -> Household:
    return grove.household("globex")


@pytest.fixture
def root(db: None, tmp_path: Path) -> Version:
    return grove.ready_root(tmp_path)


@pytest.fixture
def domain(root: Version) -> Version:
    return grove.ready_domain(root, "biomedicine")


@pytest.fixture
def model(root: Version, acme: Household) -> Version:
    """An hPLM whose two jobs, `tuning` and `evaluating`, are still to be done."""
    return grove.new_hplm(root, "spam", acme)


@pytest.fixture
def tuning(model: Version) -> Job:
    return grove.jobs_in_order(model)[0]


@pytest.fixture
def evaluating(model: Version) -> Job:
    return grove.jobs_in_order(model)[1]


@pytest.fixture
def staff(db: None) -> APIClient:
    return signed_in(User.objects.create_superuser("boss"))
