"""``/api/schema/``: the OpenAPI schema of the API."""

import gzip
import hashlib
from functools import cache
from threading import Lock
from typing import Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import re_accepts_gzip
from django.utils.cache import get_conditional_response, patch_vary_headers
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

MAX_AGE_S: Final = 300
_generating: Final = Lock()


class SchemaView(SpectacularAPIView):
    """Serves the schema to everybody. It is generated, rendered and compressed once: that takes seconds."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *_: Any, **__: Any) -> HttpResponseBase:
        """Return the schema as YAML or JSON, by the ``Accept`` header; 304 if the caller has it."""
        renderer = request.accepted_renderer
        is_compressed = bool(re_accepts_gzip.search(request.headers.get("Accept-Encoding", "")))
        with _generating:
            content, tag = _rendered(renderer.media_type, is_compressed=is_compressed)
        charset = f"; charset={renderer.charset}" if renderer.charset else ""
        headers = {
            "Content-Type": f"{renderer.media_type}{charset}",
            "Content-Disposition": f'inline; filename="HMI.{renderer.format}"',
            "Cache-Control": f"public, max-age={MAX_AGE_S}",
            "ETag": tag,
        }
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        response = HttpResponse(content, headers=headers)
        patch_vary_headers(response, ("Accept", "Accept-Encoding"))
        return get_conditional_response(request, etag=tag, response=response) or response


@cache
def _rendered(media_type: str, *, is_compressed: bool) -> tuple[bytes, str]:
    """Return the schema in a format, and its ETag."""
    if is_compressed:
        content = gzip.compress(_rendered(media_type, is_compressed=False)[0], mtime=0)
    else:
        renderer = next(each for each in SchemaView.renderer_classes if each.media_type == media_type)
        rendered = renderer().render(_schema(), renderer_context={})
        content = rendered.encode() if isinstance(rendered, str) else rendered
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


@cache
def _schema() -> Any:
    return SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
