"""Which files and folders other users of the machine may enter, read or change."""

from pathlib import Path


def open_to_others(root: Path) -> list[str]:
    """The names of those in the folder, itself included. Links have no modes of their own."""
    found = (path for path in (root, *root.rglob("*")) if not path.is_symlink())
    return [str(path.relative_to(root)) for path in found if path.lstat().st_mode & 0o077]
