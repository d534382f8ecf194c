"""The WSGI application that the web server runs."""

import os

from django.core.wsgi import get_wsgi_application

from hmi_site.embedded.parent_death import die_with_launcher

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hmi_site.settings")

# The web server's worker process is a grandchild of the launcher, so the launcher's own binding misses it.
die_with_launcher()
application = get_wsgi_application()
