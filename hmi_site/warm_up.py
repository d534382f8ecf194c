"""What the first request to a web server would else wait for: modules, and connections to its servers."""

import logging
from contextlib import suppress
from threading import Thread

from django.db import DatabaseError
from redis.exceptions import RedisError

from inference.api.client import gateway
from inference.api.question import question
from inference.api.soon import asker
from tenants.accounts.authentication import api_key_from
from tenants.base.errors import HmiError
from tenants.base.scope import empty_scope, platform_scope, tenant_scope
from tenants.base.upload_concurrency import release_database
from versiontree.tree.models import Hplm

log = logging.getLogger(__name__)

NOBODYS_KEY = f"{'0' * 8}.{'0' * 32}"
WITHIN_S = 10.0


def warm_up() -> None:
    """Look up a key that nobody has and some model, and how serving stands; nothing is asked of a model. What
    is away is for the requests to tell."""
    # In a thread, as requests are: whoever loads the application may be an event loop.
    thread = Thread(target=_ask, name="warm-up", daemon=True)
    thread.start()
    thread.join(WITHIN_S)


def _ask() -> None:
    try:
        with empty_scope():
            api_key_from(NOBODYS_KEY)
        _look_up_a_model()
        gateway().look_if_stale()
        asker()
    except (DatabaseError, RedisError, OSError) as error:
        log.warning("The first requests will wait: %s", error)
    finally:
        release_database()


def _look_up_a_model() -> None:
    with platform_scope():
        hplm = Hplm.unscoped.filter(deleted_at=None).select_related("tenant").first()
    if hplm is not None:
        with tenant_scope(hplm.tenant), suppress(HmiError):  # it may not be ready
            question(tenant=hplm.tenant, reference=hplm.name, inputs=["Is it warm?"])
