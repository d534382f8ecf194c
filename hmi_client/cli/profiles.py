"""Saved server addresses and API keys, in a file that only its owner can read."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

import platformdirs
import typer

from hmi_client.client import Client
from hmi_client.credentials import checked_key
from hmi_client.errors import HmiError, unauthenticated
from hmi_client.server import DEFAULT_URL, KEY_VARIABLE, URL_VARIABLE

DEFAULT_PROFILE = "default"
PROFILE_VARIABLE = "HMI_PROFILE"


@dataclass(frozen=True, slots=True)
class Profile:
    """A server and an API key."""

    url: str
    key: str = field(repr=False)


def profiles_file() -> Path:
    """The path of the file in the user's configuration folder (``XDG_CONFIG_HOME`` on Linux)."""
    return platformdirs.user_config_path("hmi") / "profiles.json"


def load_profiles() -> dict[str, Profile]:
    """All saved profiles by name."""
    file = profiles_file()
    try:
        saved = json.loads(file.read_text(encoding="utf-8-sig"))
        return {name: Profile(url=str(each["url"]), key=str(each["key"])) for name, each in saved.items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HmiError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HmiError(f"{file} cannot be read. Remove it, and run `hmi login` again.") from error


def save_profile(name: str, profile: Profile) -> Path:
    """Add or replace a profile and return the file's path."""
    _write({**load_profiles(), name: profile})
    return profiles_file()


def delete_profile(name: str) -> bool:
    """Delete a profile and return whether it existed."""
    saved = load_profiles()
    existed = saved.pop(name, None) is not None
    if existed:
        _write(saved)
    return existed


def _write(profiles: dict[str, Profile]) -> None:
    """Replace the file atomically."""
    file = profiles_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as new:
        json.dump({name: asdict(profile) for name, profile in profiles.items()}, new, indent=2)
    partial.replace(file)


def profile_name(context: typer.Context) -> str:
    """The value of --profile."""
    return cast("str", context.obj)


def client_of(context: typer.Context) -> Client:
    """A client for the selected profile, overridden by HMI_URL and HMI_API_KEY."""
    saved = load_profiles().get(profile_name(context))
    key = checked_key(os.environ.get(KEY_VARIABLE, "")) or checked_key(saved.key if saved else "")
    if not key:
        raise unauthenticated(f"There is no API key. Run `hmi login`, or set {KEY_VARIABLE}.")
    return Client(server_url(context), key)


def server_url(context: typer.Context) -> str:
    """The address of the selected profile's server, overridden by HMI_URL."""
    saved = load_profiles().get(profile_name(context))
    return os.environ.get(URL_VARIABLE, "").strip() or (saved.url if saved else DEFAULT_URL)
