"""Models, their versions and aliases."""

from collections.abc import Iterator
from typing import Literal

from hmi_client.connection import Connection
from hmi_client.responses import (
    Alias,
    AliasMove,
    Comparison,
    Job,
    Model,
    RebaseOffer,
    Rollback,
    Version,
    from_json,
)
from hmi_client.server import json_of, url_path

DEFAULT_ALIAS = "default"
Policy = Literal["table", "full", "cascade"]
Change = Literal["fixed", "broken", "changed"]


class ModelMethods(Connection):
    """Models, their versions and aliases."""

    def list_models(self) -> Iterator[Model]:
        """List the tenant's models."""
        return self._pages(Model, "models")

    def get_model(self, name: str) -> Model:
        """Get a model."""
        return self._get(Model, url_path("models", name))

    def rename_model(self, name: str, new_name: str) -> Model:
        """Give a model another name. Requests by the former name then get ``not_found``."""
        return self._change(Model, "PATCH", url_path("models", name), {"name": new_name})

    def delete_model(self, name: str) -> None:
        """Delete a model with its versions."""
        self._request("DELETE", url_path("models", name))

    def list_versions(self, name: str) -> Iterator[Version]:
        """List the versions of a model."""
        return self._pages(Version, url_path("models", name, "versions"))

    def get_version(self, version_id: int) -> Version:
        """Get a version of a root, domain or model by its id."""
        return self._get(Version, url_path("versions", version_id))

    def evaluate(self, name: str, number: int, *, dataset: int | None = None) -> Job:
        """Start evaluating a version on the test split of a dataset, by default its own."""
        return self._post(Job, url_path("models", name, "versions", number, "evaluate"), {"dataset": dataset})

    def compare_versions(
        self, name: str, number: int, *, against: int, change: Change | None = None, limit: int = 50
    ) -> Comparison:
        """Compare the answers of a version with those of the version ``against`` on the test rows that both
        were evaluated on. NotFound if there are none. ``results`` are at most ``limit`` (up to 500) of the
        rows that ``change`` names."""
        query = {"against": against, "change": change, "limit": limit}
        path = url_path("models", name, "versions", number, "predictions")
        params = {name: value for name, value in query.items() if value is not None}
        return from_json(Comparison, json_of(self._request("GET", path, params=params)))

    def set_policy(self, name: str, number: int, policy: Policy | None) -> Version:
        """Set how a version answers requests that set no quality. Inference follows within a second.

        ``"table"`` answers from the lookup tables, ``"full"`` computes every text, ``"cascade"`` computes the
        texts that the tables are not sure of. None: the default of the installation.
        """
        path = url_path("models", name, "versions", number)
        return self._change(Version, "PATCH", path, {"policy": policy})

    def promote(self, name: str, number: int, *, alias: str = DEFAULT_ALIAS, reason: str = "") -> Alias:
        """Point an alias at a version, by its number. A canary of the alias ends. Inference follows within a
        second."""
        path = url_path("models", name, "aliases", alias)
        return self._change(Alias, "PUT", path, {"version": number, "reason": reason})

    def rollback(
        self, name: str, *, alias: str = DEFAULT_ALIAS, from_version: int | None = None, reason: str = ""
    ) -> Rollback:
        """Point an alias at the version before its current one was promoted.

        ``from_version`` is the number of the version to get rid of. If the alias was rolled back from it
        already, nothing moves; if it points elsewhere, Conflict. Without it nothing moves if the last move
        was a rollback: name the version to go further back."""
        path = url_path("models", name, "aliases", alias, "rollback")
        return self._post(Rollback, path, {"from_version": from_version, "reason": reason})

    def start_canary(self, name: str, number: int, *, percent: int, alias: str = DEFAULT_ALIAS) -> Alias:
        """Let a version answer ``percent`` (1 to 99) of the requests to an alias, or change that share.

        The same request is always answered by the same version.
        """
        body = {"version": number, "percent": percent}
        path = url_path("models", name, "aliases", alias, "canary")
        return self._change(Alias, "PUT", path, body)

    def promote_canary(self, name: str, *, alias: str = DEFAULT_ALIAS) -> Alias:
        """Point an alias at its canary, and end the canary. Conflict if it has none."""
        return self._post(Alias, url_path("models", name, "aliases", alias, "canary", "promote"))

    def end_canary(self, name: str, *, alias: str = DEFAULT_ALIAS) -> None:
        """End the canary: the alias's own version answers all requests again. Conflict if it has none."""
        self._request("DELETE", url_path("models", name, "aliases", alias, "canary"))

    def list_rebases(self) -> list[RebaseOffer]:
        """List the models whose domain or root has a newer version."""
        return [from_json(RebaseOffer, one) for one in json_of(self._request("GET", "rebases"))]

    def rebase_model(self, name: str, *, auto_promote: bool = True) -> Version:
        """Start a new version of a model on the newest version of its domain or root, with the same PET. It
        is trained further only if it answers worse there. Conflict if there is no newer version."""
        return self._post(Version, url_path("models", name, "rebase"), {"auto_promote": auto_promote})

    def list_alias_moves(self, name: str) -> Iterator[AliasMove]:
        """List the moves of a model's aliases, newest first."""
        return self._pages(AliasMove, url_path("models", name, "alias-moves"))
