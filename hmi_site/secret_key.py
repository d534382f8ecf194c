"""The secret key of an installation: made once, kept in HMI_HOME, readable by its owner only."""

import os
import secrets
from pathlib import Path


def read_or_make(home: Path) -> str:
    """The key in `<home>/secret_key`; made when absent. Two processes that start together agree on one."""
    file = home / "secret_key"
    if not file.exists():
        _make(file)
    return file.read_text(encoding="ascii").strip()


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".secret_key.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(48), encoding="ascii")
    try:
        os.link(draft, file)  # fails where another process was first: its key is the one
    except FileExistsError:
        pass
    finally:
        draft.unlink()
