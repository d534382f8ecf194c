"""Domains and the version tree."""

from collections.abc import Iterator, Mapping
from typing import Any

from hmi_client.connection import Connection, query_of
from hmi_client.responses import Domain, Rebases, Version, from_json
from hmi_client.server import json_of, url_path


class DomainMethods(Connection):
    """Domains and the version tree."""

    def get_tree(self) -> list[Version]:
        """List every version that the tenant can see, parents before children."""
        nodes: list[Version] = []
        query: dict[str, Any] = {}
        while True:
            response = self._request("GET", "tree", params=query)
            nodes += [from_json(Version, node) for node in json_of(response)]
            if "next" not in response.links:
                return nodes
            query = query_of(response.links["next"]["url"])

    def list_domains(self) -> Iterator[Domain]:
        """List the tenant's own domains and the platform's."""
        return self._pages(Domain, "domains")

    def create_domain(
        self,
        name: str,
        *,
        parent: int,
        corpus: int,
        description: str = "",
        budget_mb: float | None = None,
        alpha: float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Version:
        """Start building a domain from a corpus. The parent is a version of a root or of another domain.

        Its table is filled up to ``budget_mb`` MB (default: 64), or covers ``alpha`` % of the corpus.
        """
        body = {
            "name": name,
            "parent": parent,
            "corpus": corpus,
            "description": description,
            "budget_mb": budget_mb,
            "alpha": alpha,
            "settings": dict(settings or {}),
        }
        return self._post(Version, "domains", body)

    def update_domain(
        self,
        domain_id: int,
        *,
        corpus: int,
        budget_mb: float | None = None,
        alpha: float | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Version:
        """Start building the next version of a domain from another corpus.

        ``budget_mb`` or ``alpha`` limits the new table, see `create_domain`. By default the newest version's
        limit applies.
        """
        body = {
            "corpus": corpus,
            "budget_mb": budget_mb,
            "alpha": alpha,
            "settings": dict(settings or {}),
        }
        return self._post(Version, url_path("domains", domain_id, "versions"), body)

    def rebase_models(self, domain_id: int) -> Rebases:
        """Rebase all models of the tenant that stand on an older version of a domain, see `rebase_model`."""
        return self._post(Rebases, url_path("domains", domain_id, "rebase"))
