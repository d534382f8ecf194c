"""The free space of the disks that hold the product's data, and a warning in the log where it runs low."""

import logging
from pathlib import Path

from django.conf import settings

from tenants.base.disk import DiskSpace, disk_space

log = logging.getLogger(__name__)


def data_disks() -> list[DiskSpace]:
    """The disks of the database and the logs, artifacts, uploads, and forms that arrive; each once."""
    folders = (
        *(settings.HMI_HOME, settings.HMI_ARTIFACT_ROOT, settings.HMI_UPLOAD_ROOT),
        settings.FILE_UPLOAD_TEMP_DIR,
    )
    disks = {space.device: space for space in map(disk_space, map(Path, reversed(folders)))}
    return [*reversed(disks.values())]


def low_disks() -> list[DiskSpace]:
    """Those of them that are nearly full."""
    return [disk for disk in data_disks() if disk.is_low]


def disks_watch() -> None:
    """Log the disks that are nearly full."""
    for disk in low_disks():
        log.error(
            "The disk of %s is nearly full: %.1f%% free. Make space: files are refused when %d MiB are left.",
            *(disk.folder, disk.free_percent, disk.reserved >> 20),
        )
