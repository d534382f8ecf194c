"""How a process tells the launcher that it takes work: it touches a file that the launcher has named."""

import os
from pathlib import Path

READY_FILE = "HMI_READY_FILE"


def mark_ready() -> None:
    """Tell the launcher; nothing happens where there is none."""
    if file := os.environ.get(READY_FILE):
        Path(file).touch()
