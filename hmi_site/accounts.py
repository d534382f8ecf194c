"""What django-allauth asks of the product: who may sign up, whose second factor must stay, its words."""

import logging
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.http import HttpRequest

from frontend.invited import openly_invited
from tenants.accounts.models import User
from tenants.base.client_address import counted_address
from tenants.base.encryption import seal, unseal

log = logging.getLogger(__name__)

REFUSED = "The user name or the password is not right. Capital letters matter in passwords."


class Accounts(DefaultAccountAdapter):
    """People and their passwords."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": REFUSED,
        "email_password_mismatch": REFUSED,
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """To everybody where the installation says so; else to whoever opened the link of an invitation."""
        return bool(settings.HMI_SIGN_UP) or openly_invited(request) is not None

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Wrong passwords are counted in one place, by lockout.py; codes still by allauth."""

    def get_client_ip(self, request: HttpRequest) -> str:
        return counted_address(request)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """A mail server that is away is for the log: the page must not tell whose address exists."""
        try:
            super().send_mail(template_prefix, email, context)
        except (SMTPException, OSError):
            log.exception("An e-mail could not be sent (%s)", template_prefix)


FACTOR_LOST = (
    "This second factor was set up under another secret key of the installation. An administrator can delete"
    " it; then set it up again."
)


class SecondFactors(DefaultMFAAdapter):
    """Authenticator apps and recovery codes."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "cannot_delete_authenticator": "Staff sign in with a second factor here; it stays on.",
    }

    def encrypt(self, text: str) -> str:
        """Whoever reads the database, or a backup of it, has no second factor of anybody."""
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text, lost=FACTOR_LOST)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Staff keep theirs where it is required of them."""
        return not second_factor_required(authenticator.user)


def second_factor_required(user: User) -> bool:
    """Whether this person may do nothing without a second factor."""
    return bool(settings.HMI_STAFF_TOTP) and user.is_staff
