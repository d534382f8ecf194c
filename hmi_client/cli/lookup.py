"""What people call things, and the ids that the API wants."""

from hmi_client.client import Client
from hmi_client.errors import HmiError
from hmi_client.responses import Version


class NameNotFound(HmiError):
    """Nothing has the name that somebody gave."""


def dataset_named(client: Client, named: str) -> int:
    """The id of a dataset: itself, or that of the dataset of this name."""
    if named.isdecimal():
        return int(named)
    ids = [dataset.id for dataset in client.datasets() if dataset.name == named]
    if not ids:
        raise NameNotFound(f"There is no dataset {named}. `hmi data list` shows them.")
    return max(ids)


def corpus_named(client: Client, named: str) -> int:
    """The same for a corpus."""
    if named.isdecimal():
        return int(named)
    ids = [corpus.id for corpus in client.corpora() if corpus.name == named]
    if not ids:
        raise NameNotFound(f"There is no corpus {named}. `hmi data list --corpora` shows them.")
    return max(ids)


def parent_named(client: Client, named: str) -> int:
    """The id of a ready version of a root or a domain: itself, or the newest of `root`, `domain` or
    `root/domain`, or the one that `:version` says. Without a name: the only root, if there is but one."""
    if named.isdecimal():
        return int(named)
    name, _, number = named.partition(":")
    root, _, last = name.rpartition("/")
    ready = [node for node in client.tree() if node.kind != "model" and node.state == "ready"]
    found = [
        node
        for node in ready
        if (node.name == last if named else node.kind == "root")
        and (not root or node.root == root)
        and (not number or str(node.number) == number)
    ]
    owners = {(node.kind, node.root, node.name, node.tenant) for node in found}
    if len(owners) != 1:
        which = "; ".join(sorted({_in_words(node) for node in found or ready})) or "none"
        if found:
            raise HmiError(f"Several fit. Name the parent by its id: {which}.")
        raise NameNotFound(f"Nothing ready is called so. Name the parent by its id: {which}.")
    return max(found, key=lambda node: node.number).id


def _in_words(node: Version) -> str:
    path = node.name if node.kind == "root" else f"{node.root}/{node.name}"
    return f"{node.id} ({path}:{node.number})"
