"""Making models, and waiting for them."""

from collections.abc import Mapping
from typing import Any

from hmi_client.errors import JobEnded
from hmi_client.flow import Flow, Item, Pause
from hmi_client.operations.jobs import POLL_S, job
from hmi_client.operations.models import version
from hmi_client.requests import path_of, post
from hmi_client.responses import ENDED, Job, Version, from_json


def model_create(
    name: str,
    *,
    parent: int,
    dataset: int,
    settings: Mapping[str, Any] | None = None,
    license: str = "",  # noqa: A002 - the API's word
    auto_promote: bool = True,
) -> Flow[Version]:
    """Begin to train a new model upon a version of a root or a domain."""
    body = {
        "name": name,
        "parent": parent,
        "dataset": dataset,
        "settings": dict(settings or {}),
        "license": license,
        "auto_promote": auto_promote,
    }
    return from_json(Version, (yield from post("models", body)))


def model_update(
    name: str, *, dataset: int, settings: Mapping[str, Any] | None = None, auto_promote: bool = True
) -> Flow[Version]:
    """Begin to train a new version of a model with another dataset; what ``settings`` leaves out stays."""
    body = {"dataset": dataset, "settings": dict(settings or {}), "auto_promote": auto_promote}
    return from_json(Version, (yield from post(path_of("models", name, "versions"), body)))


def watch(version_id: int, *, poll_s: float = POLL_S) -> Flow[None]:
    """Give the jobs that build a version whenever something of them has changed, until all have ended."""
    shown: dict[str, Job] = {}
    while True:
        chain = (yield from version(version_id)).jobs
        for line in chain:
            known = shown.get(line.id)
            if known is not None and known.has_ended:
                continue
            now = yield from job(line.id)
            if now != known:
                shown[line.id] = now
                yield Item(now)
        if all(line.state in ENDED for line in chain):
            return
        yield Pause(poll_s)


def wait(version_id: int, *, poll_s: float = POLL_S) -> Flow[Version]:
    """A version once it is ready; JobEnded if a job of its chain failed or was cancelled."""
    while True:
        built = yield from version(version_id)
        for line in built.jobs:
            if line.state in ("failed", "cancelled"):
                ended = yield from job(line.id)
                raise JobEnded(
                    ended.error_message or f"The job {ended.kind} was {ended.state}.",
                    job=ended.id,
                    code=ended.error_code or ended.state,
                )
        if all(line.state in ENDED for line in built.jobs):
            return built
        yield Pause(poll_s)
