"""Readiness of child processes: a child creates the file that HMI_READY_FILE names."""

import os
from pathlib import Path

READY_FILE = "HMI_READY_FILE"


def mark_ready() -> None:
    """Create the ready file. Does nothing without a launcher."""
    if file := os.environ.get(READY_FILE):
        Path(file).touch()
