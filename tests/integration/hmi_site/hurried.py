"""The application of the web server, which waits for those who read slowly no longer than a test would."""

from functools import partial

from hmi_site.http import slow_clients
from hmi_site.http.request_body import BodyTimeout

slow_clients.CHECK_INTERVAL_S = 0.1  # type: ignore[misc]
setattr(slow_clients, "BodyTimeout", partial(BodyTimeout, left_s=1.0))  # noqa: B010

from hmi_site.asgi import application  # noqa: E402

__all__ = ["application"]
