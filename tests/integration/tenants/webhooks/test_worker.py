"""The worker that sends, as the launcher starts it, and what a kill of it costs."""

import os
import signal
from pathlib import Path

import pytest
from pytest_django import Settings

from hmi_site.launcher import children
from tenants.webhooks.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from tests.integration.tenants.webhooks.receiver import Receiver
from tests.integration.world import make_world
from tests.processes import wait_until
from tests.services import running

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_an_event_survives_the_kill_of_the_worker_that_has_just_sent_it(
    receiver: Receiver, service_env: dict[str, str], settings: Settings, tmp_path: Path, redis_url: str
) -> None:
    settings.HMI_LOG_ROOT = tmp_path
    world = make_world()
    endpoint, _ = webhook_create(
        tenant=world.tenant, url=receiver.url, kinds=["job.failed"], actor=world.owner
    )
    delivery = webhook_test(endpoint=endpoint, actor=world.owner)
    child, ready = children.short_worker()
    clock, clock_ready = children.beat()
    allowed = {"HMI_WEBHOOK_NETWORKS": "127.0.0.1/32"}
    for each in (child, clock):
        each.env = {**each.env, **service_env, **allowed}
    with running(clock, clock_ready):
        with running(child, ready):
            receiver.first = lambda: os.kill(child.pid, signal.SIGKILL)
            wait_until(lambda: child.exit_code() is not None)
        assert WebhookDelivery.unscoped.get().state == DeliveryState.WAITING
        receiver.first = lambda: None
        WebhookEndpoint.unscoped.update(lease_expires_at=None)  # as if a minute had gone by
        again, again_ready = children.short_worker()
        again.env = child.env
        with running(again, again_ready):
            wait_until(lambda: WebhookDelivery.unscoped.get().state == DeliveryState.DELIVERED)
    ids = {request.headers["webhook-id"] for request in receiver.received}
    assert ids == {delivery.event_id}
    assert len(receiver.received) >= 2
    assert WebhookDelivery.unscoped.get().attempts == 2
