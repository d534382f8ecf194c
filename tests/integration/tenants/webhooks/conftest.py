"""A receiver on this machine, which the operator of the tests allows."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from pytest_django import Settings

from tests.integration.tenants.webhooks.receiver import Receiver, receiving


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Webhooks are delivered by Celery workers, which see the rows of all tenants."""


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    """127.0.0.1 by http may be sent to; 127.0.0.2 may not."""
    settings.HMI_WEBHOOK_NETWORKS = [ip_network("127.0.0.1/32")]
    with receiving() as receiver:
        yield receiver
