"""The ASGI application that the launcher's web server runs."""

import os
import resource

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

from django.conf import settings
from django.urls import resolve

from hmi_site import wsgi  # first: it sets Django up
from hmi_site.http.body_limits import body_permit
from hmi_site.http.event_streams import EventStreams, close_streams
from hmi_site.http.slow_clients import SlowClientMonitor
from hmi_site.http.wsgi_threads import ThreadedWsgiApp
from hmi_site.ready_file import mark_ready
from hmi_site.warm_up import warm_up
from inference.api.admission import close_gateway
from inference.api.level_checks import close_level_checks
from inference.api.submitter import close_submitter
from tenants.base.background_tasks import background_tasks
from tenants.usage.services.usage import usage_flush

BACKGROUND_TASKS_TIMEOUT_S = 5.0


def on_startup() -> None:
    """Raise the limit of open files, which each connection is, and reset slow clients."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    SlowClientMonitor(settings.HMI_PORT).start()


def on_shutdown() -> None:
    """Finish background tasks and connections. Granian's workers run no `atexit` functions."""
    background_tasks.join(BACKGROUND_TASKS_TIMEOUT_S)
    close_level_checks()
    usage_flush()
    close_submitter()
    close_gateway()


threaded_app = ThreadedWsgiApp(
    wsgi.application,
    body_permit=body_permit,
    threads=settings.HMI_WEB_THREADS,
    on_startup=on_startup,
    on_shutdown=on_shutdown,
)
application = EventStreams(threaded_app, close_streams=close_streams)
resolve("/")  # imports all views, so that the first request need not
warm_up()
mark_ready()
