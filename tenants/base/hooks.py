"""Hooks: functions that an application registers so that lower layers can call it without importing it.

Each application registers its functions in the ``ready`` of its ``AppConfig``.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from django.db.models import Model

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant
    from tenants.datasets.models import File, UploadCheck
    from tenants.datasets.services.check_results import CheckResult

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """The functions registered for one purpose, in order of registration."""

    def __init__(self) -> None:
        self._functions: list[Callable[P, R]] = []

    def register(self, function: Callable[P, R]) -> None:
        """Add a function. Registering it again changes nothing."""
        if function not in self._functions:
            self._functions.append(function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call all functions and return their results. The first exception is raised."""
        return [function(*args, **kwargs) for function in self._functions]

    def call_each(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Call all functions and return their results. Exceptions are logged, and the others still run."""
        results = []
        for function in self._functions:
            try:
                results.append(function(*args, **kwargs))
            except Exception:
                log.exception("%s failed", getattr(function, "__qualname__", function))
        return results


@dataclass(frozen=True, slots=True)
class TakeoutPart:
    """One file of a takeout: its name in the archive, and its content in chunks."""

    name: str
    chunks: Iterable[bytes]


serving_changed: Hook[[], None] = Hook()
"""Inference workers must learn of a change to a tenant. Called inside the transaction."""

tenant_deletion: "Hook[[Tenant], None]" = Hook()
"""All data of a tenant is about to be deleted. Called inside the transaction; may raise ``HmiError``."""

tenant_erasure: "Hook[[Tenant], None]" = Hook()
"""Delete what there is of a tenant outside the database. Its rows are deleted next; all may be repeated."""

file_users: "Hook[[File], Iterable[Model]]" = Hook()
"""Returns the rows that use a file, so that it cannot be deleted. Called while the file's row is locked."""

hplm_callers: "Hook[[Tenant, str], Iterable[Model]]" = Hook()
"""Returns the rows that call a tenant's model by this name, so that it cannot be renamed."""

storage_used: "Hook[[Tenant], int]" = Hook()
"""Returns the bytes that count against the tenant's storage quota."""

check_details: "Hook[[UploadCheck, CheckResult], dict[str, Any]]" = Hook()
"""Returns more details for the report of a passed upload check. Called while the checked files exist."""

takeout_parts: "Hook[[Tenant], Iterator[TakeoutPart]]" = Hook()
"""Returns the files of a tenant's takeout."""

demo_models: "Hook[[Tenant], frozenset[str] | None]" = Hook()
"""Returns the names of the models that the demo made for a tenant, None if the tenant is not of the demo."""

decoder_checkpoint_check: "Hook[[Path], None]" = Hook()
"""A folder is about to be registered as the checkpoint of a decoder; may raise ``HmiError``."""

recovery: Hook[[], object] = Hook()
"""Called every few seconds by a worker, to dispatch work again whose message or worker was lost."""

expiry: Hook[[], object] = Hook()
"""Called every hour by a worker, to delete expired rows and files."""
