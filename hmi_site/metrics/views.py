"""`GET /metrics`: for Prometheus, which has the token, and for the platform's staff."""

import secrets

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from hmi_site.metrics.platform import Platform
from hmi_site.metrics.requests import registry

registry.register(Platform())


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Figures of this process and of the platform; nothing is here for anybody else."""
    if request.method not in {"GET", "HEAD"} or not (_has_token(request) or _is_staff(request)):
        raise Http404
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    """Asked first: it needs no database, which may be what is down."""
    token: str = settings.HMI_METRICS_TOKEN
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogatepass")
    return bool(token) and secrets.compare_digest(given, f"Bearer {token}".encode())


def _is_staff(request: HttpRequest) -> bool:
    return request.user.is_authenticated and request.user.is_staff
