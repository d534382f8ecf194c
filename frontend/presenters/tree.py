"""The drawing of the version tree: roots, domains and models, loaded branch by branch."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from frontend.presenters.formatting import metric_figure, metric_label
from versiontree.tree.models import RootKind
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.browsing import Branch, VersionSummary

PER_BRANCH = 25
VERSIONS_SHOWN = 4


@dataclass(slots=True)
class Node:
    """A root, domain or model with its newest versions and the loaded children.

    `inside` counts all children, `shown` those up to the last one loaded. `stem` is the number of the parent
    version it is based on. In search results, `hit` marks matches, and `found` counts the drawn children.
    """

    kind: VersionKind
    pk: int
    name: str
    shared: bool
    note: str
    above: str
    stem: int | None
    earlier: int
    versions: Sequence[VersionSummary]
    inside: int = 0
    opened: bool = False
    children: list["Node"] = field(default_factory=list)
    shown: int = 0
    hit: bool = False
    found: int | None = None

    @property
    def key(self) -> str:
        """Return the id of the node within the page."""
        return f"{self.kind.value}-{self.pk}"

    @property
    def hidden(self) -> int:
        """Return the number of children that are not loaded yet."""
        return self.inside - self.shown


class Drawing:
    """Builds nodes from the versions of roots and domains, and the number of models on each."""

    def __init__(self, branches: Sequence[VersionSummary], counts: dict[Branch, int]) -> None:
        self._counts = counts
        self._histories: dict[Branch, list[VersionSummary]] = defaultdict(list)
        for brief in branches:
            self._histories[brief.branch].append(brief)
        self._below: dict[Branch, list[Branch]] = defaultdict(list)
        for branch, history in self._histories.items():
            if branch.domain is not None:
                self._below[history[0].parent].append(branch)

    @property
    def models(self) -> int:
        """Return the number of models."""
        return sum(self._counts.values())

    @property
    def size(self) -> int:
        """Return the number of nodes."""
        return self.models + len(self._histories)

    def roots(self) -> list[Branch]:
        """Return the roots, by name."""
        return [branch for branch in self._histories if branch.domain is None]

    def named(self, words: str) -> set[Branch]:
        """Return the branches whose name contains all these words."""
        wanted = words.lower().split()
        return {
            branch
            for branch, history in self._histories.items()
            if all(word in history[0].name.lower() for word in wanted)
        }

    def history(self, branch: Branch) -> list[VersionSummary]:
        """Return the versions of a branch, oldest first."""
        return self._histories[branch]

    def branch_of(self, kind: str, pk: int) -> Branch | None:
        """Return the branch of a root or domain; None if the tenant does not see it."""
        if kind == VersionKind.ROOT:
            return Branch(pk) if Branch(pk) in self._histories else None
        return next((branch for branch in self._histories if branch.domain == pk), None)

    def closed(self, branch: Branch) -> Node:
        """Return the node of a branch without children."""
        node = node_of(self._histories[branch])
        node.inside = len(self._below[branch]) + self._counts.get(branch, 0)
        return node

    def models_from(self, branch: Branch, start: int) -> slice:
        """Return the slice of the branch's models on the page of children that begins at `start`.

        Domains come before models.
        """
        domains = len(self._below[branch])
        return slice(max(0, start - domains), max(0, start + PER_BRANCH - domains))

    def opened(self, branch: Branch, start: int, models: Sequence[Node]) -> Node:
        """Return the node with the page of children that begins at `start`."""
        node = self.closed(branch)
        domains = self._below[branch][start : start + PER_BRANCH]
        node.children = _by_stem([*map(self.closed, domains), *models])
        node.opened, node.shown = True, start + len(node.children)
        return node

    def outlined(self) -> list[Node]:
        """Return the roots with their domains, without models."""
        return [self.opened(root, 0, []) if self._below[root] else self.closed(root) for root in self.roots()]

    def pruned(self, kept: set[Branch], models: dict[Branch, list[Node]]) -> list[Node]:
        """Return these branches and models with their ancestors, as search results."""
        drawn = self._along(kept, models)
        hits = {(one.domain is not None, one.domain or one.root) for one in kept}
        for node in drawn:
            _mark(node, hits)
        return drawn

    def _along(self, kept: set[Branch], models: dict[Branch, list[Node]]) -> list[Node]:
        needed = set(kept) | set(models)
        for branch in list(needed):
            while branch.domain is not None:
                branch = self._histories[branch][0].parent
                needed.add(branch)
        return [self._grown(root, needed, models) for root in self.roots() if root in needed]

    def whole(self, models: dict[Branch, list[Node]]) -> list[Node]:
        """Return the whole tree."""
        return self._along(set(self._histories), models)

    def _grown(self, branch: Branch, needed: set[Branch], models: dict[Branch, list[Node]]) -> Node:
        node = self.closed(branch)
        below = [self._grown(child, needed, models) for child in self._below[branch] if child in needed]
        node.children = _by_stem([*below, *models.get(branch, [])])
        node.opened, node.shown = bool(node.children), node.inside
        return node


def _by_stem(children: Iterable[Node]) -> list[Node]:
    """Sort children by the version of the parent that they are based on."""
    return sorted(children, key=lambda child: child.stem or 0)


def _mark(node: Node, hits: set[tuple[bool, int]]) -> None:
    """Mark a node and its descendants that match the search: all models, and the branches in `hits`."""
    node.hit = node.kind == VersionKind.HPLM or (node.kind == VersionKind.DOMAIN, node.pk) in hits
    node.found = len(node.children)
    for child in node.children:
        _mark(child, hits)


def model_nodes(summaries: Iterable[VersionSummary]) -> dict[Branch, list[Node]]:
    """Return the nodes of models by their branch."""
    histories: dict[int, list[VersionSummary]] = defaultdict(list)
    for summary in summaries:
        histories[summary.owner].append(summary)
    nodes: dict[Branch, list[Node]] = defaultdict(list)
    for history in histories.values():
        nodes[history[0].parent].append(node_of(history))
    return nodes


def node_of(history: Sequence[VersionSummary]) -> Node:
    """Return the node of an object with these versions, oldest first."""
    first = history[0]
    return Node(
        kind=first.kind,
        pk=first.owner,
        name=first.name,
        shared=first.shared,
        note=_note(history),
        above="" if first.parent_number is None else f"{first.parent_name} v{first.parent_number}",
        stem=first.parent_number,
        earlier=max(0, len(history) - VERSIONS_SHOWN),
        versions=history[-VERSIONS_SHOWN:],
    )


def default_version(history: Sequence[VersionSummary]) -> VersionSummary | None:
    """Return the version of a model that @default points to."""
    return next((one for one in history if DEFAULT_ALIAS in one.aliases), None)


def metric_text(brief: VersionSummary | None) -> str:
    """Return the main metric of a version with its label; empty if there is none."""
    if brief is None or brief.value is None:
        return ""
    return f"{metric_label(brief.metric)} {metric_figure(brief.metric, brief.value, brief.rows)}"


def _note(history: Sequence[VersionSummary]) -> str:
    first, figure = history[0], metric_text(default_version(history))
    if first.kind == VersionKind.ROOT:
        decoder = "Decoder, for generative models" if first.root_kind == RootKind.DECODER else ""
        retired = "Retired" if first.root_retired else ""
        return ". ".join(part for part in (retired, decoder) if part)
    return ", ".join(part for part in (first.task, figure) if part)
