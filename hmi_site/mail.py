"""How e-mail leaves: by the mail server that a URL names, or only into the log."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

PORTS = {"smtp": 587, "smtps": 465}
BACKENDS = "django.core.mail.backends"


@dataclass(frozen=True, slots=True)
class MailServer:
    """What Django's settings `EMAIL_…` say."""

    backend: str = f"{BACKENDS}.console.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def mail_server(url: str) -> MailServer:
    """`smtp://user:password@host:587` speaks STARTTLS, `smtps://…` TLS from the first byte; without a URL
    messages are written to the log of the process.
    """
    if not url:
        return MailServer()
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise _unusable() from None
    if not parts.hostname:
        raise _unusable()
    return MailServer(
        f"{BACKENDS}.smtp.EmailBackend",
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        starttls=parts.scheme == "smtp",
        tls=parts.scheme == "smtps",
    )


def _unusable() -> ImproperlyConfigured:
    # Without the URL itself: it holds a password.
    return ImproperlyConfigured("HMI_EMAIL_URL must look like smtp://user:password@host:587 or smtps://….")
