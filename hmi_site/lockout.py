"""Who has tried too many passwords: what django-axes asks of the product."""

from typing import Any

from allauth.account.signals import password_reset
from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt
from axes.utils import reset
from django.conf import settings
from django.db.models import Q, Sum
from django.http import HttpRequest, HttpResponse

from hmi_site.errors import answer
from tenants.accounts.models import User
from tenants.base.errors import ErrorCode, HmiError

LONGEST_NAME = 150
SEVERAL_ADDRESSES = 10
"""From all addresses together so many times as many passwords are tried as from one. Less would let anybody
keep anybody else out with few addresses."""


class Lockout(AxesDatabaseHandler):  # type: ignore[misc]
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
    typed = typed.strip()[:LONGEST_NAME]
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
    return answer(request, HmiError(ErrorCode.LOCKED_OUT, message, retry_after=60 * minutes))


def _end_wait(user: User, **_: Any) -> None:
    """Whoever can read the account's mail is its owner."""
    reset(username=user.get_username())


password_reset.connect(_end_wait)
