"""Bodies sent in chunks, whose length no header tells. Django would take them for empty."""

import tempfile
from collections.abc import Callable, Iterable
from typing import Any

from hmi_site.body_limits import body_limit
from tenants.errors import HmiError

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
PIECE_BYTES = 64 * 1024
MEMORY_BYTES = 2 * 1024**2
REFUSAL = "hmi.refusal"
"""Where the WSGI environment has, for `RequestGuard`, why a body could not be read to its end."""


def measured(application: Application) -> Application:
    """The application, with chunked bodies read first, so that each has a length.

    At most one byte more than the limit is read, which is enough for `RequestGuard` to refuse the body.
    """

    def measure(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        if not chunked or environ.get("CONTENT_LENGTH"):
            return application(environ, start_response)
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as body:
            left = body_limit(environ.get("CONTENT_TYPE", "").lower()) + 1
            try:
                while left and (piece := environ["wsgi.input"].read(min(left, PIECE_BYTES))):
                    body.write(piece)
                    left -= len(piece)
            except HmiError as refusal:
                environ[REFUSAL] = refusal
            environ.update({"CONTENT_LENGTH": str(body.tell()), "wsgi.input": body})
            body.seek(0)
            return application(environ, start_response)

    return measure
