"""A tenant's models (hPLMs) as pages show them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from frontend.presenters.versions import branch_name, is_ready, measurements, version_row
from versiontree.models import Hplm, Version
from versiontree.models.alias import DEFAULT_ALIAS
from versiontree.models.version import VersionKind


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model by the version that answers for it, or by its newest one while none does.

    `state` is that of the newest version when it is being built or failed, so that a list shows what goes on.
    """

    name: str
    task: str
    state: str
    ready: bool
    number: int
    branch: str
    branch_id: int
    metric: float | None
    metric_name: str


def model_rows(versions: Iterable[Version]) -> list[ModelRow]:
    """The models among the versions of a tree (parents before children), by name."""
    grouped: dict[int, list[Version]] = {}
    for version in versions:
        if version.kind == VersionKind.HPLM and version.hplm_id is not None:
            grouped.setdefault(version.hplm_id, []).append(version)
    rows = [_model_row(sorted(group, key=lambda version: version.number)) for group in grouped.values()]
    return sorted(rows, key=lambda row: row.name)


def curl_snippet(*, base_url: str, tenant: str, hplm: Hplm) -> str:
    """The infer request of a model as a line for a terminal."""
    body = json.dumps({"model": f"{tenant}/{hplm.name}", "inputs": ["A text to read."]})
    return (
        f"curl {base_url}/api/v1/infer \\\n"
        '  -H "Authorization: Bearer $HMI_API_KEY" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  -d '{body}'"
    )


def _model_row(versions: list[Version]) -> ModelRow:
    answering = next((version for version in versions if _is_default(version)), None)
    shown, newest = answering or versions[-1], versions[-1]
    row, branch = version_row(shown), _branch(versions[0])
    assert shown.hplm is not None
    return ModelRow(
        name=shown.name,
        task=shown.hplm.get_task_display(),
        state=shown.state if is_ready(newest) else newest.state,
        ready=answering is not None,
        number=shown.number,
        branch=branch_name(branch),
        branch_id=branch.pk,
        metric=measurements(shown).get("value"),
        metric_name=row.metric_name,
    )


def _is_default(version: Version) -> bool:
    return any(alias.name == DEFAULT_ALIAS for alias in version.aliases.all())


def _branch(first: Version) -> Version:
    """The root or domain that a model's first version grew from: its direct parent."""
    assert first.parent is not None
    return first.parent
