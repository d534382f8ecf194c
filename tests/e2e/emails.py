"""E-mails that the site sent."""

import re
from urllib.parse import urlsplit

from django.core import mail

from tenants.base.background_tasks import background_tasks


def link_in_last_email() -> str:
    """Return the path of the link in the newest message."""
    background_tasks.join()
    found = re.search(r"https?://\S+", str(mail.outbox[-1].body))
    assert found
    return urlsplit(found[0]).path
