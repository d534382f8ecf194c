"""Who hangs up waits no more: their request is cancelled, as if they had asked for it."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tenants.base.errors import HmiError

log = logging.getLogger(__name__)

ON_HANG_UP = "hmi.on_hang_up"
"""Where a server that can tell puts, into the WSGI environment, a function that takes what is to be called if
the caller hangs up before the answer."""


def cancel_on_hang_up(environ: Mapping[str, Any], hang_up: Callable[[], None]) -> None:
    """From now on there is something to cancel."""
    if (watch := environ.get(ON_HANG_UP)) is not None:
        watch(hang_up)


def hung_up(cancel: Callable[[], bool], request_id: str) -> None:
    """Cancel, and say in the log whether it was in time."""
    whose = {"request_id": request_id}
    try:
        cancelled = cancel()
    except HmiError as error:
        log.warning("the caller hung up, and the request goes on: %s", error, extra=whose)
    else:
        log.info("the caller hung up %s", "while waiting" if cancelled else "too late", extra=whose)
