"""Adapters for django-allauth and django-axes: sign-up, second factors and lock-out."""

import logging
from smtplib import SMTPException
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.signals import password_reset
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt
from axes.utils import reset
from django.conf import settings
from django.contrib import messages
from django.db.models import Q, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from frontend.invitation_session import open_invitation
from hmi_site.http.errors import error_response
from tenants.accounts.models import User
from tenants.accounts.services.invitations import sends_email
from tenants.base.client_address import rate_limit_address
from tenants.base.encryption import decrypt, encrypt
from tenants.base.errors import ErrorCode, HmiError

log = logging.getLogger(__name__)


CONFIRMATION_SENT = "account/messages/email_confirmation_sent.txt"
CONFIRMATION_NOT_SENT = "account/messages/email_confirmation_not_sent.txt"
SIGN_IN_FAILED = "Wrong user name or password. Passwords are case-sensitive."


class AccountAdapter(DefaultAccountAdapter):
    """allauth's account adapter."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": SIGN_IN_FAILED,
        "email_password_mismatch": SIGN_IN_FAILED,
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Whether HMI_SIGN_UP is set, or the request came by an invitation's link."""
        return bool(settings.HMI_SIGN_UP) or open_invitation(request) is not None

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Do nothing: axes limits failed passwords. allauth still limits failed codes."""

    def get_client_ip(self, request: HttpRequest) -> str:
        return rate_limit_address(request)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Log a failed mail server. An error page would reveal which addresses exist."""
        try:
            super().send_mail(template_prefix, email, context)
        except (SMTPException, OSError):
            log.exception("An e-mail could not be sent (%s)", template_prefix)
            self.request.is_mail_lost = True

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Say that a link was sent only if one was."""
        is_sent = sends_email() and not getattr(request, "is_mail_lost", False)
        if message_template == CONFIRMATION_SENT and not is_sent:
            level, message_template = messages.WARNING, CONFIRMATION_NOT_SENT
        super().add_message(request, level, message_template, message_context, *args, **kwargs)


UNDECRYPTABLE_FACTOR = (
    "The secret key of this installation has changed since two-factor authentication was set up. Ask an"
    " administrator to disable it for your account, then set it up again."
)


class MfaAdapter(DefaultMFAAdapter):
    """allauth's adapter for second factors."""

    error_messages = DefaultMFAAdapter.error_messages | {
        "cannot_delete_authenticator": "Staff must use two-factor authentication. It cannot be disabled.",
    }

    def encrypt(self, text: str) -> str:
        """Encrypt a secret, so that a leaked database or backup does not contain it."""
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text, error_message=UNDECRYPTABLE_FACTOR)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """False for staff who must have a second factor."""
        return not second_factor_required(authenticator.user)


def second_factor_required(user: User) -> bool:
    """Whether HMI_STAFF_TOTP is set and the user is staff."""
    return bool(settings.HMI_STAFF_TOTP) and user.is_staff


MAX_NAME_LENGTH = 150


ALL_ADDRESSES_FACTOR = 10
"""The limit for all addresses together, as a multiple of that for one. A low value would let attackers lock
out other users from few addresses."""


class LockoutHandler(AxesDatabaseHandler):
    """Limits the failed sign-ins of a user name from one address, and from all addresses together."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """The failures from this address, or a tenth of those from all addresses if that is more."""
        of_name = AccessAttempt.objects.filter(
            username=get_client_username(request, credentials),
            attempt_time__gte=get_cool_off_threshold(request),
        )
        everywhere: int = of_name.aggregate(tried=Sum("failures_since_start"))["tried"] or 0
        here: int = super().get_failures(request, credentials)
        return max(here, everywhere // ALL_ADDRESSES_FACTOR)


def lockout_username(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """The user name to count a failed sign-in for, from a user name or e-mail address in any case.

    An input that matches no user, or several, is counted by itself, so that no user is locked out by it.
    """
    given = credentials or {}
    typed = str(given.get("username") or given.get("email") or request.POST.get("login", ""))
    typed = typed.strip()[:MAX_NAME_LENGTH]
    if not typed:
        return typed
    by_mail = Q(email__iexact=typed) | Q(emailaddress__email__iexact=typed)
    owners = User.objects.filter(Q(username__iexact=typed) | by_mail).distinct()[:2]
    return owners[0].get_username() if len(owners) == 1 else typed.lower()


def lockout_response(request: HttpRequest, *_: Any) -> HttpResponse:
    """429 for a locked-out user name."""
    minutes = settings.HMI_LOCKOUT_MINUTES
    message = (
        "Too many wrong passwords for this user name."
        f" Try again in {minutes} {'minute' if minutes == 1 else 'minutes'}, or reset your password."
        " An administrator can also unlock the account."
    )
    return error_response(
        request,
        HmiError(ErrorCode.LOCKED_OUT, message, retry_after=60 * minutes),
        title="Too many sign-in attempts",
        link=(reverse("account_reset_password"), "Reset password"),
    )


def _reset_lockout(user: User, **_: Any) -> None:
    """End the lock-out after a password reset by e-mail."""
    reset(username=user.get_username())


password_reset.connect(_reset_lockout)
