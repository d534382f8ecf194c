"""The ASGI application, for servers of that kind; the launcher serves `hmi_site.wsgi`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

application = get_asgi_application()
