"""Warm up a web server: import modules and open connections before the first request."""

import logging
from contextlib import suppress
from threading import Thread

from django.db import DatabaseError
from redis.exceptions import RedisError

from inference.api.admission import gateway
from inference.api.prepared_request import prepare_request
from inference.api.submitter import submitter
from inference.api.validation import InferCall
from inference.openai.prepared_completion import generative_codec
from inference.text.tasks import EMBEDDING
from tenants.accounts.authentication import api_key_from
from tenants.base.errors import HmiError
from tenants.base.scope import empty_scope, platform_scope, tenant_scope
from tenants.base.upload_concurrency import release_database
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.resolution import resolve_model_cached

log = logging.getLogger(__name__)

UNKNOWN_KEY = f"{'0' * 8}.{'0' * 32}"
TIMEOUT_S = 10.0


def warm_up() -> None:
    """Look up an unknown API key, a model of each root and the serving state. Errors are only logged."""
    # In a thread, like requests: the caller may be an event loop.
    thread = Thread(target=_run, name="warm-up", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)


def _run() -> None:
    try:
        with empty_scope():
            api_key_from(UNKNOWN_KEY)
        prepare_a_request_for_each_root()
        gateway().look_if_stale()
        submitter()
    except (DatabaseError, RedisError, OSError) as error:
        log.warning("The first requests will be slow: %s", error)
    finally:
        release_database()


def prepare_a_request_for_each_root() -> None:
    """Which reads the root's tokenizer, and has the chat template compiled."""
    with platform_scope():
        living = Version.unscoped.filter(state=VersionState.READY, hplm__deleted_at=None)
        newest = living.order_by("root_id", "-pk").distinct("root_id").select_related("hplm__tenant")
        hplms = [version.hplm for version in newest if version.hplm is not None]
    for hplm in hplms:
        with tenant_scope(hplm.tenant), suppress(HmiError):  # it may have no default version
            model = resolve_model_cached(hplm.tenant, hplm.name)
            if model.is_generative:
                generative_codec(model.root_digest)
            else:
                call = InferCall(model=hplm.name, inputs=["Is it warm?"])
                prepare_request(call, tenant=hplm.tenant, embed=model.task == EMBEDDING)
