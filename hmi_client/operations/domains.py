"""The version tree, and domains."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hmi_client.flow import Call, Flow, ask
from hmi_client.requests import pages, post
from hmi_client.responses import Domain, Version, from_json


def tree() -> Flow[list[Version]]:
    """Every version that the tenant sees, parents before children; a large tree comes in parts."""
    nodes: list[Version] = []
    asked: dict[str, Any] = {}
    while True:
        response = yield from ask(Call("GET", "tree", asked))
        nodes += [from_json(Version, node) for node in response.json()]
        if "next" not in response.links:
            return nodes
        asked = dict(parse_qsl(urlsplit(response.links["next"]["url"]).query))


def domains() -> Flow[None]:
    """The domains that the tenant sees: its own, and the platform's."""
    return (yield from pages(Domain, "domains"))


def domain_create(
    name: str, *, parent: int, corpus: int, description: str = "", settings: Mapping[str, Any] | None = None
) -> Flow[Version]:
    """Begin to build a domain from a corpus, upon a version of a root or of another domain."""
    body = {
        "name": name,
        "parent": parent,
        "corpus": corpus,
        "description": description,
        "settings": dict(settings or {}),
    }
    return from_json(Version, (yield from post("domains", body)))
