"""The application that the launcher's web server runs; `hmi_site.wsgi` is it for servers of that kind."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

from django.conf import settings

from hmi_site.threaded import Threaded
from hmi_site.wsgi import application as in_a_thread

application = Threaded(in_a_thread, threads=settings.HMI_WEB_THREADS)
