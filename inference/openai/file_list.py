"""The list of files: stored ones, and the result files of fine-tunings, which are made when read."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from inference.openai.fine_tuning_serializers import RESULTS_PURPOSE, results_file_json, results_id
from inference.openai.ids import FILE, format_id
from inference.openai.pagination import list_json
from inference.openai.serializers import file_json
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import FilePurpose
from tenants.datasets.selectors.files import files_of
from versiontree.tree.selectors.fine_tunings import fine_tunings_with_results

PURPOSES: Final = (*FilePurpose.values, RESULTS_PURPOSE)


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    """A file of the list, in the order of the time of its creation."""

    created_at: datetime
    key: UUID
    is_results: bool

    @property
    def id(self) -> str:
        return results_id(self.key) if self.is_results else format_id(FILE, self.key)


def file_list(
    tenant: Tenant, *, purpose: str | None, after: str | None, limit: int, descending: bool
) -> dict[str, Any]:
    """The page of the tenant's files of a purpose (None: of all), as JSON. Raises ``not_found`` if no file of
    the list has the id ``after``."""
    entries = sorted(_entries(tenant, purpose), reverse=descending)
    start = 0
    if after is not None:
        start = next((at for at, entry in enumerate(entries, 1) if entry.id == after), 0)
        if not start:
            message = "The list has no item with this id."
            raise HmiError(ErrorCode.NOT_FOUND, message, param="after")
    page = entries[start : start + limit]
    return list_json(_to_json(tenant, page), has_more=start + limit < len(entries))


def _entries(tenant: Tenant, purpose: str | None) -> list[_Entry]:
    entries: list[_Entry] = []
    if purpose != RESULTS_PURPOSE:
        files = files_of(tenant) if purpose is None else files_of(tenant).filter(purpose=purpose)
        entries += [_Entry(*row, False) for row in files.values_list("created_at", "pk")]
    if purpose in (None, RESULTS_PURPOSE):
        results = fine_tunings_with_results(tenant).values_list("version__ready_at", "pk")
        entries += [_Entry(ready_at, key, True) for ready_at, key in results if ready_at is not None]
    return entries


def _to_json(tenant: Tenant, page: list[_Entry]) -> list[dict[str, Any]]:
    files = files_of(tenant).in_bulk([entry.key for entry in page if not entry.is_results])
    results = fine_tunings_with_results(tenant).in_bulk([entry.key for entry in page if entry.is_results])
    shown = {key: file_json(file) for key, file in files.items()}
    shown |= {key: results_file_json(fine_tuning) for key, fine_tuning in results.items()}
    return [shown[entry.key] for entry in page if entry.key in shown]
