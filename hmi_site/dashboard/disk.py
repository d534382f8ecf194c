"""Disk usage of the artifact store and the uploads."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db.models import Sum
from django.template.defaultfilters import filesizeformat

from tenants.datasets.models import Corpus, DatasetSplit, File, Upload
from versiontree.tree.models import Artifact

NEARLY_FULL: Final = 0.9


@dataclass(frozen=True, slots=True)
class Store:
    """A storage folder: the size of its files, and its disk's free space and usage (0 to 1)."""

    name: str
    used: str
    free: str
    usage: float

    @property
    def percent(self) -> int:
        """The disk's usage in percent."""
        return round(100 * self.usage)

    @property
    def is_nearly_full(self) -> bool:
        """Whether the disk is at least 90% full."""
        return self.usage >= NEARLY_FULL


def stores() -> list[Store]:
    """The artifact store and the uploads (five queries)."""
    artifacts = _sum(Artifact.objects.all(), "size")
    uploads = sum(
        _sum(rows, "size_bytes")
        for rows in (model.unscoped.all() for model in (Corpus, DatasetSplit, File, Upload))
    )
    return [
        _store("Artifact store", artifacts, Path(settings.HMI_ARTIFACT_ROOT)),
        _store("Uploads", uploads, Path(settings.HMI_UPLOAD_ROOT)),
    ]


def _sum(rows: Any, column: str) -> int:
    return int(rows.aggregate(total=Sum(column))["total"] or 0)


def _store(name: str, held: int, folder: Path) -> Store:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    disk = shutil.disk_usage(folder)
    return Store(name, filesizeformat(held), filesizeformat(disk.free), 1 - disk.free / disk.total)
