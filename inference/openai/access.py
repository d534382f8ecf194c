"""What all views of the OpenAI conventions have in common."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from inference.openai.serializers import OpenAiErrorSerializer
from tenants.accounts.api.access import TenantView


class PermissiveNegotiation(DefaultContentNegotiation):
    """Their clients ask for ``application/binary`` where they fetch a file; who asks gets what there is."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The first one."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


class OpenAiView(TenantView):
    """In a tenant, its lists in their parts (`lists`), its errors in their shape (`errors`)."""

    content_negotiation_class: Any = PermissiveNegotiation
    pagination_class = None  # type: ignore[assignment]  # theirs


def errors(*statuses: int) -> dict[int, Any]:
    """How these stand in the OpenAPI description; 401, 403, 404, 429 and 503 may come from everywhere, 415
    from where a body may be too large (413)."""
    of_bodies = {415} if 413 in statuses else set()
    return dict.fromkeys(sorted({401, 403, 404, 429, 500, 503, *of_bodies, *statuses}), OpenAiErrorSerializer)
