"""Where the command keeps addresses and keys: a file of the person's own, which nobody else can read."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from hmi_client.errors import HmiError

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and a key."""

    url: str
    key: str


def profiles_file() -> Path:
    """The path of the file: in the user's configuration folder (``XDG_CONFIG_HOME`` on Linux)."""
    return platformdirs.user_config_path("hmi") / "profiles.json"


def profiles() -> dict[str, Profile]:
    """All, by name."""
    file = profiles_file()
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return {name: Profile(url=one["url"], key=one["key"]) for name, one in kept.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HmiError(f"{file} cannot be read. Remove it, and run `hmi login` again.") from error


def profile_save(name: str, profile: Profile) -> Path:
    """Add or replace one; the file is there whole or not at all."""
    kept = {**profiles(), name: profile}
    _write({each: asdict(one) for each, one in kept.items()})
    return profiles_file()


def profile_delete(name: str) -> bool:
    """Remove one; whether it was there."""
    kept = profiles()
    known = kept.pop(name, None) is not None
    if known:
        _write({each: asdict(one) for each, one in kept.items()})
    return known


def _write(content: object) -> None:
    file = profiles_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as new:
        json.dump(content, new, indent=2)
    beside.replace(file)
