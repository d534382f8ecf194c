"""Whatever requests come in, they are answered, or refused with a reason."""

from pathlib import Path

import pytest
from pytest_django import Settings
from redis import Redis

from inference.api.admission import close_gateway
from tenants.accounts.services.api_keys import api_key_create
from tests.e2e.world import World, world_build
from tests.integration.fuzz.cases import TIMES, Entrance, check_all_tried, tried
from tests.integration.fuzz.requests import FORM_KIND, JSON_KIND, Door, Scopes, entrances
from tests.integration.routes.places import in_the_tenant

pytestmark = [pytest.mark.timeout(1800 * max(1, TIMES))]
AT_THE_DOOR, OF_SCOPES = 7_000, 1_000
WAYS_IN = entrances()


@pytest.fixture
def world(db: None, redis_client: Redis, artifact_root: Path, upload_root: Path, settings: Settings) -> World:
    settings.HMI_RATE_MANAGE = settings.HMI_RATE_REQUESTS = 0
    return world_build()


@pytest.mark.parametrize("name", WAYS_IN)
def test_everything_is_read_or_refused(name: str) -> None:
    check_all_tried(WAYS_IN[name])


def test_every_request_is_answered_and_every_error_has_the_one_shape(world: World) -> None:
    scopes = ["infer", "manage"]
    _, key = api_key_create(tenant=world.tenant, name="stranger", scopes=scopes, created_by=world.owner)
    door = Door(key, in_the_tenant(world))
    check_all_tried(Entrance(AT_THE_DOOR, door.asked(), door.ask))
    close_gateway()
    assert door.read[JSON_KIND] >= 2_000 * TIMES
    assert door.read[FORM_KIND] >= 500 * TIMES


def test_no_words_but_the_very_scope_show_a_tenants_rows(world: World) -> None:
    scopes = Scopes(world.tenant.pk)
    assert tried(Entrance(OF_SCOPES, scopes.sent, scopes.enter)).cases >= OF_SCOPES * TIMES
