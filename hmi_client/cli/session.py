"""Which server a command speaks to, and as whom."""

import os
from dataclasses import dataclass
from typing import cast

import typer

from hmi_client.client import DEFAULT_URL, KEY_VARIABLE, URL_VARIABLE, Client
from hmi_client.errors import AuthenticationFailed
from hmi_client.profiles import profiles

PROFILE_VARIABLE = "HMI_PROFILE"


@dataclass(frozen=True, slots=True)
class Session:
    """The profile that was chosen. Variables of the environment go before it."""

    profile: str

    def client(self) -> Client:
        """A client of that server; AuthenticationFailed if there is no key."""
        kept = profiles().get(self.profile)
        key = os.environ.get(KEY_VARIABLE) or (kept.key if kept else "")
        if not key:
            raise AuthenticationFailed(
                f"There is no key. Run `hmi login`, or set {KEY_VARIABLE}.",
                status=401,
                code="unauthenticated",
                type="authentication",
            )
        return Client(os.environ.get(URL_VARIABLE) or (kept.url if kept else DEFAULT_URL), key)


def session_of(context: typer.Context) -> Session:
    """The session of the running command."""
    return cast("Session", context.obj)


def client_of(context: typer.Context) -> Client:
    """The client of the running command."""
    return session_of(context).client()
