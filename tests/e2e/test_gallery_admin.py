"""Every page of the administration, looked at as those in test_gallery.py are."""

import pytest
from redis import Redis

from tests.e2e.axe import OF_OTHERS
from tests.e2e.conftest import Enter
from tests.e2e.looking import Looker
from tests.e2e.states import administration
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World


@pytest.mark.thorough
@pytest.mark.timeout(1500)
def test_the_pages_of_the_administration(
    looker: Looker, enter: Enter, world: World, files: TinyFiles, redis_client: Redis
) -> None:
    looker.ours, looker.without = False, OF_OTHERS
    names = []
    for name in administration.pages(looker.page, enter, world, files, redis_client):
        looker.look(name)
        names.append(name)
        looker.without = (*OF_OTHERS, administration.FRAME)
    assert len(names) > 40
    looker.found_nothing()
