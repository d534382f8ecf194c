"""Domains and the version tree."""

from collections.abc import Mapping
from typing import Any

from hmi_client.flow import ApiRequest, Flow, paginate, post, query_of, send
from hmi_client.responses import Domain, Version, from_json


def get_tree() -> Flow[list[Version]]:
    """List every version that the tenant can see, parents before children."""
    nodes: list[Version] = []
    query: dict[str, Any] = {}
    while True:
        response = yield from send(ApiRequest("GET", "tree", query))
        nodes += [from_json(Version, node) for node in response.json()]
        if "next" not in response.links:
            return nodes
        query = query_of(response.links["next"]["url"])


def list_domains() -> Flow[None]:
    """List the tenant's own domains and the platform's."""
    return (yield from paginate(Domain, "domains"))


def create_domain(
    name: str, *, parent: int, corpus: int, description: str = "", settings: Mapping[str, Any] | None = None
) -> Flow[Version]:
    """Start building a domain from a corpus. The parent is a version of a root or of another domain."""
    body = {
        "name": name,
        "parent": parent,
        "corpus": corpus,
        "description": description,
        "settings": dict(settings or {}),
    }
    return from_json(Version, (yield from post("domains", body)))
