"""Telling inference workers what to do: services, each with its line in the audit log."""

from typing import Final

from redis.exceptions import RedisError

from inference.api.serving import order
from inference.queueing.asking import DRAIN, REFRESH, RESUME
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError
from versiontree.tree.serving_manifest import manifest_publish

ORDERS: Final = {DRAIN: "drained", RESUME: "taking requests again", REFRESH: "refreshed"}
"""What a worker can be told, and what it is then."""


def worker_order(*, worker: str, what: str, actor: Actor) -> None:
    """Have a worker ``drain`` (answer what it has, and take no more), ``resume``, or ``refresh`` (read the
    manifest, which is written anew before, and try again what could not be loaded).

    Raises ``not_found`` (no such order, or no such worker answers), ``worker_unavailable`` when the queue
    cannot be reached.
    """
    if what not in ORDERS:
        raise HmiError(ErrorCode.NOT_FOUND, f"Workers do not know the order {what!r}.")
    if what == REFRESH:
        manifest_publish()
    try:
        obeyed = order(worker, what)
    except RedisError as error:
        raise HmiError(ErrorCode.WORKER_UNAVAILABLE, "The queue cannot be reached.") from error
    if not obeyed:
        raise HmiError(ErrorCode.NOT_FOUND, f"No inference worker called {worker!r} answers.")
    audit_record(verb=f"worker.{what}", subject=worker, tenant=None, actor=actor)
