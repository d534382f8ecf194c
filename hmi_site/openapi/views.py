"""``/api/schema/``: the OpenAPI schema of the API."""

from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


class SchemaView(SpectacularAPIView):
    """Serves one cached schema to everybody: it takes a second to generate."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *_: Any, **__: Any) -> HttpResponse:
        """Return the schema as YAML or JSON, by the ``Accept`` header."""
        renderer = request.accepted_renderer
        charset = f"; charset={renderer.charset}" if renderer.charset else ""
        headers = {
            "Content-Type": f"{renderer.media_type}{charset}",
            "Content-Disposition": f'inline; filename="HMI.{renderer.format}"',
        }
        return HttpResponse(_rendered_schema(renderer.media_type), headers=headers)


@cache
def _rendered_schema(media_type: str) -> str | bytes:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    renderer = next(each for each in SchemaView.renderer_classes if each.media_type == media_type)
    return renderer().render(schema, renderer_context={})
