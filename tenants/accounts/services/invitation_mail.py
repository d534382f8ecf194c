"""Sending the link of an invitation, once the invitation is committed."""

import logging
from collections.abc import Callable
from enum import StrEnum
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string
from django.urls import reverse

from tenants.accounts.models import Invitation

log = logging.getLogger(__name__)


class Delivery(StrEnum):
    """What became of the message."""

    SENT = "sent"
    FAILED = "failed"
    NO_SERVER = "no_server"


def invitation_deliver(
    *, invitation: Invitation, token: str, site: Callable[[str], str]
) -> tuple[str, Delivery]:
    """The link, and whether a mail server took it; ``site`` makes a path an address. Call it outside of
    transactions. Without a mail server nothing is written to the log, as a link lets in whoever has it.
    """
    link = site(reverse("frontend:invitation_link", args=[token]))
    if settings.EMAIL_BACKEND.endswith(".console.EmailBackend"):
        return link, Delivery.NO_SERVER
    told = {"invitation": invitation, "link": link, "site": site("/")}
    subject = " ".join(render_to_string("accounts/email/invitation_subject.txt", told).split())
    message = render_to_string("accounts/email/invitation_message.txt", told)
    try:
        send_mail(subject, message, None, [invitation.email])
    except (SMTPException, OSError):
        log.exception("The mail of invitation %d could not be sent", invitation.pk)
        return link, Delivery.FAILED
    return link, Delivery.SENT
