"""The secret key of an installation, saved in HMI_HOME and readable only by its owner."""

import os
import secrets
from pathlib import Path


def read_or_create(home: Path) -> str:
    """The key in `<home>/secret_key`, created if missing. Safe for processes that start at the same time."""
    file = home / "secret_key"
    if not file.exists():
        _create(file)
    return file.read_text(encoding="ascii").strip()


def _create(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".secret_key.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(48), encoding="ascii")
    try:
        os.link(draft, file)  # fails if another process was first
    except FileExistsError:
        pass
    finally:
        draft.unlink()
