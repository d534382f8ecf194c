"""Models, their versions and aliases."""

from typing import Literal

from hmi_client.flow import ApiRequest, Flow, get, paginate, post, send, url_path
from hmi_client.responses import Alias, AliasMove, Model, Rollback, Version, from_json

DEFAULT_ALIAS = "default"
Policy = Literal["table", "full", "cascade"]


def list_models() -> Flow[None]:
    """List the tenant's models."""
    return (yield from paginate(Model, "models"))


def get_model(name: str) -> Flow[Model]:
    """Get a model."""
    return (yield from get(Model, url_path("models", name)))


def rename_model(name: str, new_name: str) -> Flow[Model]:
    """Give a model another name. Requests by the former name then get ``not_found``."""
    response = yield from send(ApiRequest("PATCH", url_path("models", name), json={"name": new_name}))
    return from_json(Model, response.json())


def delete_model(name: str) -> Flow[None]:
    """Delete a model with its versions."""
    yield from send(ApiRequest("DELETE", url_path("models", name)))


def list_versions(name: str) -> Flow[None]:
    """List the versions of a model."""
    return (yield from paginate(Version, url_path("models", name, "versions")))


def get_version(version_id: int) -> Flow[Version]:
    """Get a version of a root, domain or model by its id."""
    return (yield from get(Version, url_path("versions", version_id)))


def set_policy(name: str, number: int, policy: Policy | None) -> Flow[Version]:
    """Set how a version answers requests that set no quality. Inference follows within a second.

    ``"table"`` answers from the lookup tables, ``"full"`` computes every text, ``"cascade"`` computes the
    texts that the tables are not sure of. None: the default of the installation.
    """
    path = url_path("models", name, "versions", number)
    response = yield from send(ApiRequest("PATCH", path, json={"policy": policy}))
    return from_json(Version, response.json())


def promote(name: str, number: int, *, alias: str = DEFAULT_ALIAS, reason: str = "") -> Flow[Alias]:
    """Point an alias at a version, by its number. A canary of the alias ends. Inference follows within a
    second."""
    path = url_path("models", name, "aliases", alias)
    response = yield from send(ApiRequest("PUT", path, json={"version": number, "reason": reason}))
    return from_json(Alias, response.json())


def rollback(
    name: str, *, alias: str = DEFAULT_ALIAS, from_version: int | None = None, reason: str = ""
) -> Flow[Rollback]:
    """Point an alias at the version before its current one was promoted.

    ``from_version`` is the number of the version to get rid of. If the alias was rolled back from it already,
    nothing moves; if it points elsewhere, Conflict. Without it nothing moves if the last move was a rollback:
    name the version to go further back.
    """
    path = url_path("models", name, "aliases", alias, "rollback")
    return from_json(Rollback, (yield from post(path, {"from_version": from_version, "reason": reason})))


def start_canary(name: str, number: int, *, percent: int, alias: str = DEFAULT_ALIAS) -> Flow[Alias]:
    """Let a version answer ``percent`` (1 to 99) of the requests to an alias, or change that share.

    The same request is always answered by the same version.
    """
    body = {"version": number, "percent": percent}
    path = url_path("models", name, "aliases", alias, "canary")
    response = yield from send(ApiRequest("PUT", path, json=body))
    return from_json(Alias, response.json())


def promote_canary(name: str, *, alias: str = DEFAULT_ALIAS) -> Flow[Alias]:
    """Point an alias at its canary, and end the canary. Conflict if it has none."""
    return from_json(
        Alias, (yield from post(url_path("models", name, "aliases", alias, "canary", "promote")))
    )


def end_canary(name: str, *, alias: str = DEFAULT_ALIAS) -> Flow[None]:
    """End the canary: the alias's own version answers all requests again. Conflict if it has none."""
    yield from send(ApiRequest("DELETE", url_path("models", name, "aliases", alias, "canary")))


def list_alias_moves(name: str) -> Flow[None]:
    """List the moves of a model's aliases, newest first."""
    return (yield from paginate(AliasMove, url_path("models", name, "alias-moves")))
