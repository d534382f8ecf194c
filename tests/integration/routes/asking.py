"""Who asks on a walk, and how."""

from copy import deepcopy
from typing import Any

from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client

from tests.e2e.world import World

SHOWN = ("text/html", "application/json", "text/event-stream")
"""Pages, answers of the API and streams, all of the product's own making."""
OWN_TEXTS = {"/metrics", "/api/schema/", "/admin/jsi18n/", "/help/images/tree.png"}
SENT = "/v1/files/"
"""Below it lies content as it was sent, whatever it is."""


def browser_of(person: str, world: World) -> Client:
    """A browser in which this person is signed in."""
    client = Client(raise_request_exception=False)
    if person != "anonymous":
        client.force_login(getattr(world, person))
    return client


def ask(client: Client, method: str, path: str) -> HttpResponseBase:
    """The answer to a request without data; whatever it changed is undone."""
    api = path.startswith(("/api/", "/v1/"))
    where = f"{path}?tenant=acme" if api and "/tenants" not in path and "/platform/" not in path else path
    sent: dict[str, Any] = {"data": "{}", "content_type": "application/json"} if api else {"data": ""}
    cookies = deepcopy(client.cookies)
    with transaction.atomic():
        answer = client.get(where) if method == "GET" else client.generic(method, where, **sent)
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer


def shown_in_place(answer: HttpResponseBase, path: str) -> bool:
    """Whether a browser would show a file there instead of saving it."""
    if answer.status_code != 200 or path in OWN_TEXTS:
        return False
    sent = path.endswith("/content") and path.startswith(SENT)
    made = answer.headers.get("Content-Type", "").startswith(SHOWN) and not sent
    return not made and not answer.headers.get("Content-Disposition", "").startswith("attachment")
