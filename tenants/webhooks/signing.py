"""Secrets of endpoints, and the headers that prove who sent a request (Standard Webhooks)."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from standardwebhooks import Webhook

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32


def new_secret() -> str:
    """A random secret, as receivers' libraries take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(*, event_id: str, at: datetime, body: str, with_secrets: Sequence[str]) -> dict[str, str]:
    """The headers of a request with this body, sent now (``at``, UTC), signed with each of the secrets."""
    signatures = [Webhook(secret).sign(event_id, at, body) for secret in with_secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
        "content-type": "application/json",
        "accept-encoding": "identity",
        "user-agent": "HMI-Webhooks/1",
    }
