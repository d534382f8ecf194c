"""The model card of an archive: YAML front matter for model hubs, and Markdown sections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from huggingface_hub import ModelCardData

from versiontree.transfer.archive.layout import Node
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.versions import as_mapping, is_number

PIPELINES: Final = {
    "classification": "text-classification",
    "multilabel": "text-classification",
    "regression": "text-classification",
    "tagging": "token-classification",
    "question_answering": "question-answering",
    "generation": "text-generation",
    "chat": "text-generation",
    "embedding": "feature-extraction",
}
UNKNOWN: Final = "unknown"
_MAX_DEPTH: Final = 3
_MAX_ROWS: Final = 40
_MEASURE_NAMES: Final = {"truncated_share": "truncated rows"}
_PART_NAMES: Final = {"hplm": "model"}


def model_card(nodes: Sequence[Node]) -> str:
    """The card of the first node; the others are its ancestors."""
    version = nodes[0]
    title = f"# {version.name} v{version.number}"
    return "\n".join([_front_matter(nodes), "", title, "", _lead(version), *_sections(nodes), ""])


def _front_matter(nodes: Sequence[Node]) -> str:
    version, root = nodes[0], nodes[-1]
    data = ModelCardData(
        license=version.license or UNKNOWN,
        base_model=(root.source_url or root.name) if root is not version else None,
        pipeline_tag=PIPELINES.get(version.task, version.task) if version.task else None,
        tags=["hmi", str(version.kind), *([version.task] if version.task else [])],
        datasets=list(dict.fromkeys(name for name, _, _ in _data(version))),
        digest=version.digest,
    )
    return f"---\n{data.to_yaml()}\n---"


def _lead(version: Node) -> str:
    what = str(version.kind)
    task = f" for {version.task.replace('_', ' ')}" if version.task else ""
    labels = version.config.get("labels")
    label_text = f" Its labels: {', '.join(map(str, labels))}." if isinstance(labels, list) and labels else ""
    described = f" {version.description.strip()}" if version.description.strip() else ""
    return _plain(f"Version {version.number} of the {what} {version.name}{task}.{label_text}{described}")


def _sections(nodes: Sequence[Node]) -> Iterator[str]:
    version = nodes[0]
    yield from _section("Measures", _measures(version))
    yield from _section("Notes", _notes(version))
    lineage = [
        (node.kind.label, f"{node.name} v{node.number}", _PART_NAMES.get(role, role), digest)
        for node in nodes
        for role, digest in sorted(node.digests.items())
    ]
    yield from _section("Lineage", _table(("", "version", "part", "sha256 of its file table"), lineage))
    yield from _section("Training", _table(("setting", "value"), _settings(version)))
    data = [(f"{node.name} v{node.number}", *row) for node in nodes for row in _data(node)]
    yield from _section("Data", _table(("version", "data", "part", "sha256"), data))
    licenses = [
        (f"{node.kind.label} {node.name}", node.license or UNKNOWN, node.source_url)
        for node in nodes
        if node.kind != VersionKind.DOMAIN
    ]
    yield from _section("Licenses", _table(("of", "license", "source"), licenses))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    content = list(lines)
    if content:
        yield from ("", f"## {title}", "", *content)


def _notes(version: Node) -> Iterator[str]:
    """The origin and the warnings of a version."""
    if version.config.get("quick"):
        yield "- A quick version: a head on the frozen root."
    imported = as_mapping(version.config.get("imported"))
    if "format" in imported:
        about = ", ".join(f"{name} {value}" for name, value in sorted(imported.items()))
        yield f"- {_plain(f'Trained elsewhere: {about}.')}"
    yield from (f"- {_plain(warning)}" for warning in version.config.get("warnings", ()))


def _measures(version: Node) -> Iterable[str]:
    if version.kind != VersionKind.HPLM:
        flat = list(_leaves(version.metrics))[:_MAX_ROWS]
        return _table(("measure", "value"), [(name, _figure(value)) for name, value in flat])
    dev = _scores(as_mapping(as_mapping(version.metrics.get("fine_tune")).get("dev")))
    test = _scores(as_mapping(version.metrics.get("evaluate")))
    rows = [(name, _figure(dev.get(name)), _figure(test.get(name))) for name in dict.fromkeys([*test, *dev])]
    return _table(("measure", "dev", "test"), rows)


def _scores(found: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation by what readers call them, with the main metric under its own name."""
    named = {str(found.get("metric", "")) or "value" if name == "value" else name: value
             for name, value in found.items()}  # fmt: skip
    return {
        _MEASURE_NAMES.get(name) or name.replace("_", " "): value
        for name, value in named.items()
        if is_number(value) and name != "imbalance"
    }


def _settings(version: Node) -> Iterator[tuple[str, str]]:
    reports = [as_mapping(report) for report in version.metrics.values()]
    reported = next((report["settings"] for report in reports if report.get("settings")), None)
    # A quick version has those that the trained one was asked for.
    requested = None if version.config.get("quick") else version.config.get("settings")
    yield from (
        (name, _figure(value)) for name, value in _leaves(as_mapping(reported or requested), all_values=True)
    )
    yield from (
        (key, _figure(report[key])) for report in reports for key in ("seed", "best_epoch") if key in report
    )


def _data(node: Node) -> Iterator[tuple[str, str, str]]:
    """(name, part, sha256) of a version's training data."""
    dataset, corpus = as_mapping(node.config.get("dataset")), as_mapping(node.config.get("corpus"))
    for split, digest in as_mapping(dataset.get("splits")).items():
        yield str(dataset.get("name", "")), str(split), str(digest)
    if corpus:
        yield str(corpus.get("name", "")), "text", str(corpus.get("sha256", ""))


def _leaves(
    found: Mapping[str, Any], above: str = "", *, all_values: bool = False
) -> Iterator[tuple[str, Any]]:
    """The numbers of nested objects, or all values, by their path."""
    for name, value in found.items():
        path = f"{above} {name}".strip().replace("_", " ")
        if isinstance(value, Mapping) and len(path.split(" / ")) < _MAX_DEPTH:
            yield from _leaves(value, f"{path} /", all_values=all_values)
        elif is_number(value) or (all_values and value is not None):
            yield path, value


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines] if lines else []


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """The text on one line, with Markdown escaped."""
    line = " ".join(str(text).split())
    return "".join(f"\\{sign}" if sign in "<>[]*`\\" else sign for sign in line)


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(_figure, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
