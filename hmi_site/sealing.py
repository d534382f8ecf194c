"""Texts in the database that nobody may read there: sealed by the installation's secret key."""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

from tenants.errors import ErrorCode, HmiError

SEALED = "sealed:"
PURPOSE = "hmi_site.sealing"


def seal(text: str) -> str:
    """The text, to be read with the key alone."""
    return SEALED + _keys().encrypt(text.encode()).decode()


def unseal(stored: str) -> str:
    """What was sealed, also with one of HMI_SECRET_KEY_FALLBACKS; what never was is taken as it stands.
    Another key: ``forbidden``."""
    if not stored.startswith(SEALED):
        return stored
    try:
        return _keys().decrypt(stored.removeprefix(SEALED)).decode()
    except InvalidToken:
        raise HmiError(
            ErrorCode.FORBIDDEN,
            "This second factor was set up under another secret key of the installation. An administrator can"
            " delete it; then set it up again.",
        ) from None


def _keys() -> MultiFernet:
    return MultiFernet([_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    return Fernet(urlsafe_b64encode(salted_hmac(PURPOSE, "", secret=secret, algorithm="sha256").digest()))
