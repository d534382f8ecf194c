"""Models, their versions and aliases."""

from hmi_client.errors import Conflict
from hmi_client.flow import Call, Flow, ask
from hmi_client.requests import get, pages, path_of
from hmi_client.responses import Alias, AliasMove, Model, Version, from_json

DEFAULT_ALIAS = "default"


def models() -> Flow[None]:
    """The tenant's models."""
    return (yield from pages(Model, "models"))


def model(name: str) -> Flow[Model]:
    """One model."""
    return (yield from get(Model, path_of("models", name)))


def model_delete(name: str) -> Flow[None]:
    """Delete a model with its versions."""
    yield from ask(Call("DELETE", path_of("models", name)))


def versions(name: str) -> Flow[None]:
    """The versions of a model."""
    return (yield from pages(Version, path_of("models", name, "versions")))


def version(version_id: int) -> Flow[Version]:
    """One version of anything, by its id."""
    return (yield from get(Version, path_of("versions", version_id)))


def promote(name: str, number: int, *, alias: str = DEFAULT_ALIAS, reason: str = "") -> Flow[Alias]:
    """Point an alias at a version, by its number; infer requests follow within a second."""
    path = path_of("models", name, "aliases", alias)
    response = yield from ask(Call("PUT", path, json={"version": number, "reason": reason}))
    return from_json(Alias, response.json())


def rollback(name: str, *, alias: str = DEFAULT_ALIAS, reason: str = "") -> Flow[Alias]:
    """Point an alias at the version that it pointed at before its last move."""
    response = yield from ask(Call("GET", path_of("models", name, "alias-moves")))
    moves = [from_json(AliasMove, move) for move in response.json()["results"] if move["name"] == alias]
    if not moves or moves[0].from_version is None:
        raise Conflict(
            f"The alias {alias} of {name} has pointed at no other version before.",
            status=409,
            code="conflict",
            type="conflict",
        )
    return (yield from promote(name, moves[0].from_version, alias=alias, reason=reason or "rollback"))


def alias_moves(name: str) -> Flow[None]:
    """Where the aliases of a model pointed, newest first."""
    return (yield from pages(AliasMove, path_of("models", name, "alias-moves")))
