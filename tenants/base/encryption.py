"""Encryption of secrets in the database with the installation's secret key."""

from base64 import urlsafe_b64encode
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.utils.crypto import salted_hmac

from tenants.base.errors import ErrorCode, HmiError

ENCRYPTED_PREFIX: Final = "encrypted:"
KEY_SALT: Final = "hmi_site.encryption"
KEY_CHANGED: Final = "This was encrypted with another secret key of the installation."


def encrypt(text: str) -> str:
    """Return the text encrypted with SECRET_KEY."""
    return ENCRYPTED_PREFIX + _fernet().encrypt(text.encode()).decode()


def decrypt(stored: str, *, error_message: str = KEY_CHANGED) -> str:
    """Return the plain text, using SECRET_KEY or one of HMI_SECRET_KEY_FALLBACKS.

    Text that was never encrypted is returned as it is. Raises ``forbidden`` with ``error_message`` if no key
    fits.
    """
    if not stored.startswith(ENCRYPTED_PREFIX):
        return stored
    try:
        return _fernet().decrypt(stored.removeprefix(ENCRYPTED_PREFIX)).decode()
    except InvalidToken:
        raise HmiError(ErrorCode.FORBIDDEN, error_message) from None


def _fernet() -> MultiFernet:
    keys = [
        salted_hmac(KEY_SALT, "", secret=secret, algorithm="sha256").digest()
        for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
    return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in keys])
