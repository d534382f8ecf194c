"""The version tree as it is drawn: roots, their domains, and models, a page of each branch at a time."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from frontend.presenters.metrics import written
from frontend.presenters.wording import metric_words
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.browsing import Branch, VersionSummary

PER_BRANCH = 25
VERSIONS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Chip:
    """One version in its node."""

    number: int
    state: str
    aliases: tuple[str, ...]


@dataclass(slots=True)
class Node:
    """A root, domain or model with its newest versions, and what hangs on it as far as it is shown.

    `inside` counts what hangs directly on it, `shown` how many of them come up to the last one drawn. `stem`
    is the version of the one above that its first version was grown from. In what a search found, `hit` has
    the name, and `found` counts those that are drawn of what hangs on it.
    """

    kind: VersionKind
    pk: int
    name: str
    shared: bool
    note: str
    above: str
    stem: int | None
    earlier: int
    versions: list[Chip]
    inside: int = 0
    opened: bool = False
    children: list["Node"] = field(default_factory=list)
    shown: int = 0
    hit: bool = False
    found: int | None = None

    @property
    def key(self) -> str:
        """Its name within the page."""
        return f"{self.kind.value}-{self.pk}"

    @property
    def hidden(self) -> int:
        """How many follow those that are drawn."""
        return self.inside - self.shown


class Drawing:
    """Lays out what is seen of the tree: `branches` are the versions of roots and domains, `counts` how many
    models hang on each."""

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
    def hplms(self) -> int:
        """How many hang on all branches together."""
        return sum(self._counts.values())

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.hplms + len(self._histories)

    def roots(self) -> list[Branch]:
        """Those without anything above them, by name."""
        return [branch for branch in self._histories if branch.domain is None]

    def named(self, words: str) -> set[Branch]:
        """The branches whose name has these words."""
        wanted = words.lower().split()
        return {
            branch
            for branch, history in self._histories.items()
            if all(word in history[0].name.lower() for word in wanted)
        }

    def history(self, branch: Branch) -> list[VersionSummary]:
        """Its versions, the oldest first."""
        return self._histories[branch]

    def branch_of(self, kind: str, pk: int) -> Branch | None:
        """The branch that a root or a domain is."""
        if kind == VersionKind.ROOT:
            return Branch(pk) if Branch(pk) in self._histories else None
        return next((branch for branch in self._histories if branch.domain == pk), None)

    def closed(self, branch: Branch) -> Node:
        """The node alone."""
        node = node_of(self._histories[branch])
        node.inside = len(self._below[branch]) + self._counts.get(branch, 0)
        return node

    def hplms_from(self, branch: Branch, start: int) -> slice:
        """Which of the branch's models, by name, are among the next that hang on it: domains come first."""
        domains = len(self._below[branch])
        return slice(max(0, start - domains), max(0, start + PER_BRANCH - domains))

    def opened(self, branch: Branch, start: int, hplms: Sequence[Node]) -> Node:
        """The node with the next of what hangs on it, from `start` on."""
        node = self.closed(branch)
        domains = self._below[branch][start : start + PER_BRANCH]
        node.children = _by_stem([*map(self.closed, domains), *hplms])
        node.opened, node.shown = True, start + len(node.children)
        return node

    def outlined(self) -> list[Node]:
        """The roots and what grows directly from them, models left out."""
        return [self.opened(root, 0, []) if self._below[root] else self.closed(root) for root in self.roots()]

    def pruned(self, kept: set[Branch], hplms: dict[Branch, list[Node]]) -> list[Node]:
        """The whole way from the roots to these branches and models, which were looked for, and nothing
        beside it."""
        drawn = self._along(kept, hplms)
        hits = {(one.domain is not None, one.domain or one.root) for one in kept}
        for node in drawn:
            _mark(node, hits)
        return drawn

    def _along(self, kept: set[Branch], hplms: dict[Branch, list[Node]]) -> list[Node]:
        needed = set(kept) | set(hplms)
        for branch in list(needed):
            while branch.domain is not None:
                branch = self._histories[branch][0].parent
                needed.add(branch)
        return [self._grown(root, needed, hplms) for root in self.roots() if root in needed]

    def whole(self, hplms: dict[Branch, list[Node]]) -> list[Node]:
        """Everything there is to be seen."""
        return self._along(set(self._histories), hplms)

    def _grown(self, branch: Branch, needed: set[Branch], hplms: dict[Branch, list[Node]]) -> Node:
        node = self.closed(branch)
        below = [self._grown(child, needed, hplms) for child in self._below[branch] if child in needed]
        node.children = _by_stem([*below, *hplms.get(branch, [])])
        node.opened, node.shown = bool(node.children), node.inside
        return node


def _by_stem(children: Iterable[Node]) -> list[Node]:
    """Those from one version of the node above beside each other, the oldest version first."""
    return sorted(children, key=lambda child: child.stem or 0)


def _mark(node: Node, hits: set[tuple[bool, int]]) -> None:
    """Say of a node and of all that hangs on it whether it was looked for, as every model was; `hits`
    are the others, domains or not, by id."""
    node.hit = node.kind == VersionKind.HPLM or (node.kind == VersionKind.DOMAIN, node.pk) in hits
    node.found = len(node.children)
    for child in node.children:
        _mark(child, hits)


def hplm_nodes(briefs: Iterable[VersionSummary]) -> dict[Branch, list[Node]]:
    """Models by the branch they hang on."""
    histories: dict[int, list[VersionSummary]] = defaultdict(list)
    for brief in briefs:
        histories[brief.owner].append(brief)
    nodes: dict[Branch, list[Node]] = defaultdict(list)
    for history in histories.values():
        nodes[history[0].parent].append(node_of(history))
    return nodes


def node_of(history: Sequence[VersionSummary]) -> Node:
    """The node of something with these versions, the oldest first."""
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
        versions=[Chip(one.number, one.state, one.aliases) for one in history[-VERSIONS_SHOWN:]],
    )


def answering(history: Sequence[VersionSummary]) -> VersionSummary | None:
    """The version of a model that answers when nobody says which."""
    return next((one for one in history if DEFAULT_ALIAS in one.aliases), None)


def measured(brief: VersionSummary | None) -> str:
    """The figure of a version with its name; empty where there is none."""
    if brief is None or brief.value is None:
        return ""
    return f"{metric_words(brief.metric)} {written(brief.metric, brief.value)}"


def _note(history: Sequence[VersionSummary]) -> str:
    figure = measured(answering(history))
    return ", ".join(part for part in (history[0].task, figure) if part)
