"""The description of the API, as it is served."""

from functools import cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request


class DescriptionView(SpectacularAPIView):
    """The same for everybody, so a process makes it once: that takes a second."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *_: Any, **__: Any) -> HttpResponse:
        """As YAML or JSON, whichever was asked for."""
        renderer = request.accepted_renderer
        charset = f"; charset={renderer.charset}" if renderer.charset else ""
        headers = {
            "Content-Type": f"{renderer.media_type}{charset}",
            "Content-Disposition": f'inline; filename="HMI.{renderer.format}"',
        }
        return HttpResponse(_written(renderer.media_type), headers=headers)


@cache
def _written(media_type: str) -> str | bytes:
    made = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    renderer = next(one for one in DescriptionView.renderer_classes if one.media_type == media_type)
    return renderer().render(made, renderer_context={})
