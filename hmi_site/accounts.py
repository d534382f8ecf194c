"""What django-allauth asks of the product: who may sign up, whose second factor must stay, its words."""

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
from django.db.models import Q, Sum
from django.http import HttpRequest, HttpResponse

from frontend.invitation_session import open_invitation
from hmi_site.http.errors import error_response
from tenants.accounts.models import User
from tenants.base.client_address import rate_limit_address
from tenants.base.encryption import decrypt, encrypt
from tenants.base.errors import ErrorCode, HmiError

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
        return bool(settings.HMI_SIGN_UP) or open_invitation(request) is not None

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Wrong passwords are counted in one place, by lockout.py; codes still by allauth."""

    def get_client_ip(self, request: HttpRequest) -> str:
        return rate_limit_address(request)

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
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text, error_message=FACTOR_LOST)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Staff keep theirs where it is required of them."""
        return not second_factor_required(authenticator.user)


def second_factor_required(user: User) -> bool:
    """Whether this person may do nothing without a second factor."""
    return bool(settings.HMI_STAFF_TOTP) and user.is_staff


MAX_NAME_LENGTH = 150


SEVERAL_ADDRESSES = 10
"""From all addresses together so many times as many passwords are tried as from one. Less would let anybody
keep anybody else out with few addresses."""


class Lockout(AxesDatabaseHandler):
    """Counts what was tried from one address and, more patiently, from all."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """As axes compares it with the limit: the greater of the failures of the name and address, and the
        tenth part of those of the name from any address."""
        of_name = AccessAttempt.objects.filter(
            username=get_client_username(request, credentials),
            attempt_time__gte=get_cool_off_threshold(request),
        )
        everywhere: int = of_name.aggregate(tried=Sum("failures_since_start"))["tried"] or 0
        here: int = super().get_failures(request, credentials)
        return max(here, everywhere // SEVERAL_ADDRESSES)


def account_name(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """Whose password is tried: one name, whether the user name or an e-mail address was typed, in whatever
    letters. What belongs to nobody, or to several, is taken as it was typed: nobody may have what is tried
    of another account counted as tried of their own.
    """
    given = credentials or {}
    typed = str(given.get("username") or given.get("email") or request.POST.get("login", ""))
    typed = typed.strip()[:MAX_NAME_LENGTH]
    if not typed:
        return typed
    by_mail = Q(email__iexact=typed) | Q(emailaddress__email__iexact=typed)
    owners = User.objects.filter(Q(username__iexact=typed) | by_mail).distinct()[:2]
    return owners[0].get_username() if len(owners) == 1 else typed.lower()


def locked_out(request: HttpRequest, *_: Any) -> HttpResponse:
    """What somebody sees who has tried too often."""
    minutes = settings.HMI_LOCKOUT_MIN
    message = (
        f"There were {settings.HMI_LOCKOUT_FAILURES} wrong passwords for this user name from your address, or"
        f" {SEVERAL_ADDRESSES * settings.HMI_LOCKOUT_FAILURES} from several."
        f" Wait {minutes} {'minute' if minutes == 1 else 'minutes'} and try again, or choose a new password"
        " by e-mail, which ends the wait; so can an administrator."
    )
    return error_response(request, HmiError(ErrorCode.LOCKED_OUT, message, retry_after=60 * minutes))


def _end_wait(user: User, **_: Any) -> None:
    """Whoever can read the account's mail is its owner."""
    reset(username=user.get_username())


password_reset.connect(_end_wait)
