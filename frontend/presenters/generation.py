"""The columns of the playground for generative models."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest

from frontend.presenters.snippets import Snippets, completion_snippets
from tenants.accounts.models import Tenant
from versiontree.tree.selectors.callable_hplms import CallableHplm


@dataclass(frozen=True, slots=True)
class ChatColumn:
    """A model, and the code that asks it."""

    offer: CallableHplm
    snippets: Snippets

    @property
    def id(self) -> str:
        """Return the id of the column within the page."""
        return "chat-" + re.sub(r"[^a-z0-9-]", lambda found: f"_{ord(found[0])}", self.offer.reference)


def chat_columns(request: HttpRequest, tenant: Tenant, offers: Iterable[CallableHplm]) -> list[ChatColumn]:
    """Return a column for each model."""
    base_url = request.build_absolute_uri("/v1")
    return [
        ChatColumn(offer, completion_snippets(base_url, offer.task, _full_name(tenant, offer)))
        for offer in offers
    ]


def _full_name(tenant: Tenant, offer: CallableHplm) -> str:
    reference = offer.reference
    return reference if "/" in reference else f"{tenant.slug}/{reference}"
