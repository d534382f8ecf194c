"""Ids of datasets, corpora and versions by name."""

from hmi_client.client import Client
from hmi_client.errors import HmiError
from hmi_client.responses import Version


class NameNotFound(HmiError):
    """No object has this name."""


def dataset_id(client: Client, name: str) -> int:
    """The id of the newest dataset of this name. An id is returned as it is."""
    if name.isdecimal():
        return int(name)
    ids = [dataset.id for dataset in client.list_datasets() if dataset.name == name]
    if not ids:
        raise NameNotFound(f"There is no dataset {name}. List them: hmi data list")
    return max(ids)


def corpus_id(client: Client, name: str) -> int:
    """The id of the newest corpus of this name. An id is returned as it is."""
    if name.isdecimal():
        return int(name)
    ids = [corpus.id for corpus in client.list_corpora() if corpus.name == name]
    if not ids:
        raise NameNotFound(f"There is no corpus {name}. List them: hmi data list --corpora")
    return max(ids)


def parent_id(client: Client, name: str) -> int:
    """The id of a ready version of a root or domain.

    ``name`` is an id, `root`, `domain` or `root/domain`, optionally with `:version`. The default
    version is the newest. An empty name means the only root.
    """
    if name.isdecimal():
        return int(name)
    path, _, number = name.partition(":")
    root, _, last = path.rpartition("/")
    ready = [node for node in client.get_tree() if node.kind != "model" and node.state == "ready"]
    found = [
        node
        for node in ready
        if (node.name == last if name else node.kind == "root")
        and (not root or node.root == root)
        and (not number or str(node.number) == number)
    ]
    owners = {(node.kind, node.root, node.name, node.tenant) for node in found}
    if len(owners) != 1:
        which = "; ".join(sorted({_describe(node) for node in found or ready})) or "none"
        if found:
            raise HmiError(f"Several versions match. Choose one with --parent ID: {which}.")
        raise NameNotFound(f"No ready version matches. Choose one with --parent ID: {which}.")
    return max(found, key=lambda node: node.number).id


def domain_id(client: Client, name: str) -> int:
    """The id of a domain. ``name`` is an id, `domain` or `root/domain`."""
    if name.isdecimal():
        return int(name)
    root, _, last = name.rpartition("/")
    found = [one for one in client.list_domains() if one.name == last and root in ("", one.root)]
    if not found:
        raise NameNotFound(f"There is no domain {name}. List them: hmi domains list")
    if len(found) > 1:
        which = "; ".join(f"{one.id} ({one.root}/{one.name}, {one.tenant or 'platform'})" for one in found)
        raise HmiError(f"Several domains match. Name one by its id: {which}.")
    return found[0].id


def version_of(client: Client, name: str, number: int | None) -> Version:
    """The version of a model of this number, by default that of the alias `default`."""
    if number is None:
        aliases = client.get_model(name).aliases
        number = next((alias.version for alias in aliases if alias.name == "default"), None)
    found = next((one for one in client.list_versions(name) if one.number == number), None)
    if found is None:
        raise NameNotFound(f"{name} has no such version. List them: hmi models versions {name}")
    return found


def _describe(node: Version) -> str:
    path = node.name if node.kind == "root" else f"{node.root}/{node.name}"
    return f"{node.id} ({path}:{node.number})"
