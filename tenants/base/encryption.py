"""Texts in the database that nobody may read there: sealed by the installation's secret key."""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

from tenants.base.errors import ErrorCode, HmiError

SEALED = "sealed:"
PURPOSE = "hmi_site.sealing"
LOST = "This was sealed under another secret key of the installation."


def seal(text: str) -> str:
    """The text, to be read with the key alone."""
    return SEALED + _keys().encrypt(text.encode()).decode()


def unseal(stored: str, *, lost: str = LOST) -> str:
    """What was sealed, also with one of HMI_SECRET_KEY_FALLBACKS; what never was is taken as it stands.
    Another key: ``forbidden``, with the sentence ``lost``."""
    if not stored.startswith(SEALED):
        return stored
    try:
        return _keys().decrypt(stored.removeprefix(SEALED)).decode()
    except InvalidToken:
        raise HmiError(ErrorCode.FORBIDDEN, lost) from None


def _keys() -> MultiFernet:
    return MultiFernet([_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    return Fernet(urlsafe_b64encode(salted_hmac(PURPOSE, "", secret=secret, algorithm="sha256").digest()))
