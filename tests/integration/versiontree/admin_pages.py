"""What tests of the admin share."""

from html import unescape
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

NO_INLINES = {
    f"{inline}-{count}_FORMS": "0" for inline in ("versions", "aliases") for count in ("TOTAL", "INITIAL")
}


APP_OF = {"job": "jobs", "batch": "batches"}


def plain(page: Any) -> str:
    """The text of a page, entities and markup undone."""
    return unescape(strip_tags(page.content.decode()))


def act(client: Client, model: str, action: str, *rows: object, **sent: str) -> str:
    """Run an admin action on rows; returns the page that follows. ``sent`` is what the page asks for."""
    answer = client.post(
        reverse(f"admin:{APP_OF.get(model, 'tree')}_{model}_changelist"),
        {"action": action, "_selected_action": [str(getattr(row, "pk")) for row in rows], **sent},  # noqa: B009
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()
