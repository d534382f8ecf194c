"""Disk usage of the artifact store and the uploads."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db.models import Sum

from tenants.base.file_sizes import file_size
from tenants.datasets.models import Corpus, DatasetSplit, File, Upload
from tenants.datasets.storage import upload_store
from versiontree.tree.models import Artifact

NEARLY_FULL: Final = 0.9
FILLING: Final = 0.8


@dataclass(frozen=True, slots=True)
class Store:
    """A storage folder, and the size of its files."""

    name: str
    held: str


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of some storage folders: its used, free and total space, other files among them, and its usage
    (0 to 1)."""

    stores: tuple[Store, ...]
    used: str
    free: str
    total: str
    usage: float

    @property
    def name(self) -> str:
        """The names of its folders."""
        return " and ".join([self.stores[0].name, *(store.name.lower() for store in self.stores[1:])])

    @property
    def percent(self) -> int:
        """The disk's usage in percent."""
        return round(100 * self.usage)

    @property
    def is_filling(self) -> bool:
        """Whether the disk is at least 80% full."""
        return self.usage >= FILLING

    @property
    def is_nearly_full(self) -> bool:
        """Whether the disk is at least 90% full."""
        return self.usage >= NEARLY_FULL


def disks_in_use() -> list[Disk]:
    """The disks of the artifact store and the uploads (six queries), one only if both are on the same."""
    artifacts = _sum(Artifact.objects.all(), "size")
    kept = (Corpus, DatasetSplit, File)
    uploads = sum(_sum(model.unscoped.all(), "size_bytes") for model in kept) + _uploaded_bytes()
    held = [
        (_existing(Path(settings.HMI_ARTIFACT_ROOT)), Store("Artifact store", file_size(artifacts))),
        (_existing(Path(settings.HMI_UPLOAD_ROOT)), Store("Uploads", file_size(uploads))),
    ]
    folders = {folder.stat().st_dev: folder for folder, _ in held}
    return [
        _disk(folder, tuple(store for at, store in held if at.stat().st_dev == device))
        for device, folder in folders.items()
    ]


def _sum(rows: Any, column: str) -> int:
    return int(rows.aggregate(total=Sum(column))["total"] or 0)


def _uploaded_bytes() -> int:
    """The bytes of uploads that have arrived: of those under way, the length of their files."""
    under_way = Upload.unscoped.filter(completed_at=None).values_list("pk", flat=True)
    paths = [upload_store().upload_path(pk) for pk in under_way]
    return sum(map(_length, paths)) + _sum(Upload.unscoped.exclude(completed_at=None), "size_bytes")


def _length(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has ended since
        return 0


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _disk(folder: Path, stores: tuple[Store, ...]) -> Disk:
    space = shutil.disk_usage(folder)
    used = space.total - space.free
    return Disk(
        stores,
        file_size(used),
        file_size(space.free),
        file_size(space.total),
        used / space.total,
    )
