"""A tenant's hPLMs as pages show them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest

from frontend.presenters.versions import is_default, is_ready, parent_name, version_row
from versiontree.models import Hplm, Version


@dataclass(frozen=True, slots=True)
class HplmRow:
    """An hPLM by the version that answers for it, or by its newest one while none does.

    `state` is that of the newest version when it is being built or failed, so that a list shows what goes on.
    """

    name: str
    task: str
    state: str
    ready: bool
    number: int
    parent: str
    domain_id: int | None
    metric: str
    metric_name: str


def hplm_rows(versions: Iterable[Version]) -> list[HplmRow]:
    """The hPLMs among the versions of a tree (parents before children), by name."""
    grouped: dict[Hplm, list[Version]] = {}
    known: dict[int | None, Version] = {}
    for version in versions:
        known[version.pk] = version
        if version.hplm is not None:
            grouped.setdefault(version.hplm, []).append(version)
    rows = []
    for hplm, group in grouped.items():
        group.sort(key=lambda version: version.number)
        rows.append(_hplm_row(hplm, group, parent=known[group[0].parent_id]))
    return sorted(rows, key=lambda row: row.name)


def curl_snippet(request: HttpRequest, hplm: Hplm) -> str:
    """The infer request of an hPLM as a line for a terminal."""
    body = json.dumps({"model": f"{hplm.tenant.slug}/{hplm.name}", "inputs": ["A text to read."]})
    return (
        f"curl {request.build_absolute_uri('/api/v1/infer')} \\\n"
        '  -H "Authorization: Bearer $HMI_API_KEY" \\\n'
        f"  --json '{body}'"
    )


def _hplm_row(hplm: Hplm, versions: list[Version], *, parent: Version) -> HplmRow:
    answering = next((version for version in versions if is_default(version)), None)
    shown, newest = answering or versions[-1], versions[-1]
    row = version_row(shown)
    return HplmRow(
        name=hplm.name,
        task=hplm.get_task_display(),
        state=shown.state if is_ready(newest) else newest.state,
        ready=answering is not None,
        number=shown.number,
        parent=parent_name(parent),
        domain_id=parent.domain_id,
        metric=row.metric,
        metric_name=row.metric_name,
    )
