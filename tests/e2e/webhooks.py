"""Webhooks with deliveries: one that works, and one that was disabled."""

from tenants.webhooks.http_client import WebhookResponse
from tenants.webhooks.models import WebhookEndpoint
from tenants.webhooks.services.delivery import delivery_claim, delivery_record
from tenants.webhooks.services.endpoints import webhook_create
from tenants.webhooks.services.events import webhook_test
from tests.e2e.world import World

TAKEN = WebhookResponse(204, "", "", 48)
LATE = WebhookResponse(503, "The response was 503.", "<h1>Service unavailable</h1>", 1204, retry_after=600)
NOBODY = WebhookResponse(None, "The host name cannot be resolved.", "", 31)
GONE = WebhookResponse(410, "The response was 410.", "", 52)


def create_webhooks_and_deliveries(world: World) -> None:
    """Create deliveries that succeeded, that wait for a retry, and that failed."""
    builds = _hook(world, "https://builds.pharmacy.example/hmi/events?team=models", "The build server")
    for answer in (TAKEN, NOBODY, LATE, TAKEN):
        _sent(world, builds, answer)
    webhook_test(endpoint=builds, actor=world.owner)
    _sent(world, _hook(world, "https://old.pharmacy.example/hooks", ""), GONE)


def _hook(world: World, url: str, description: str) -> WebhookEndpoint:
    kinds = ["job.succeeded", "job.failed", "alias.moved"]
    return webhook_create(
        tenant=world.tenant, url=url, kinds=kinds, description=description, actor=world.owner
    )[0]


def _sent(world: World, endpoint: WebhookEndpoint, answer: WebhookResponse) -> None:
    webhook_test(endpoint=endpoint, actor=world.owner)
    while claim := delivery_claim():
        mine = claim.delivery.endpoint_id == endpoint.pk
        delivery_record(claim=claim, response=answer if mine else TAKEN)
