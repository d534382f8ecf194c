"""The application that the launcher's web server runs; `hmi_site.wsgi` is it for servers of that kind."""

import os
import resource
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import resolve

from hmi_site import wsgi  # first: it sets Django up, whose models the others ask for
from hmi_site.direct.application import Direct
from hmi_site.http.body_limits import permit
from hmi_site.http.event_streams import EventStreams, end_streams
from hmi_site.http.slow_clients import SlowClients
from hmi_site.http.wsgi_threads import Threaded
from hmi_site.ready_file import tell_ready
from hmi_site.warm_up import warm_up
from inference.api.client import close_gateway
from inference.api.soon import close_asker
from inference.garbage import spare_garbage_collection
from tenants.base.background_tasks import background_tasks
from tenants.usage.services.usage import usage_write

FINISH_S = 5.0
LOOK_UPS = 4
"""At a time, for infer requests that have no thread of their own."""


def start() -> None:
    """What begins with the web server: each connection is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    SlowClients(settings.HMI_PORT).watch()


def end() -> None:
    """Granian's workers run nothing that is registered with `atexit`."""
    background_tasks.finish(FINISH_S)
    usage_write()
    close_asker()
    close_gateway()


with_a_thread_each = Threaded(
    wsgi.application, permit=permit, threads=settings.HMI_WEB_THREADS, at_start=start, at_end=end
)
application = Direct(
    EventStreams(get_asgi_application(), others=with_a_thread_each, end_streams=end_streams),
    threads=ThreadPoolExecutor(LOOK_UPS, "look-ups"),
)
resolve("/")  # has all views imported, which else the first request would wait for
warm_up()
spare_garbage_collection()
tell_ready()
