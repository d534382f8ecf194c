"""The application that the launcher's web server runs; `hmi_site.wsgi` is it for servers of that kind."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

from django.conf import settings
from django.core.asgi import get_asgi_application

from hmi_site.streams import StreamsApart, end_streams
from hmi_site.threaded import Threaded
from hmi_site.wsgi import application as in_a_thread
from inference.api.client import close_gateway
from tenants.afterwards import afterwards
from tenants.services.usage import usage_write

FINISH_S = 5.0


def end() -> None:
    """Granian's workers run nothing that is registered with `atexit`."""
    afterwards.finish(FINISH_S)
    usage_write()
    close_gateway()


application = StreamsApart(
    get_asgi_application(),
    others=Threaded(in_a_thread, threads=settings.HMI_WEB_THREADS, at_end=end),
    end_streams=end_streams,
)
