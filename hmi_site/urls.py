"""The root URLconf."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularSwaggerSplitView as SwaggerView

from hmi_site import health
from hmi_site.http import errors
from hmi_site.metrics.requests import metrics
from hmi_site.openapi.views import SchemaView
from inference.open_inference.views import ServerView

# The admin uses the site's login, with lock-out and second factor.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

urlpatterns: list[URLPattern | URLResolver] = [
    path("health/live", health.live, name="health-live"),
    path("health/ready", health.ready, name="health-ready"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/schema/", SchemaView.as_view(), name="schema"),
    path(
        "api/docs/",
        SwaggerView.as_view(url_name="schema", template_name="frontend/api_docs.html"),
        name="docs",
    ),
    path("api/v1/", include("inference.api.urls")),  # first: most requests go here
    path("api/v1/", include("hmi_site.api_urls")),
    path("v1/", include("inference.openai.urls")),
    path("v2", ServerView.as_view(), name="oip-server"),
    path("v2/health/live", health.oip_live, name="health-oip-live"),
    path("v2/health/ready", health.oip_ready, name="health-oip-ready"),
    path("v2/", include("inference.open_inference.urls")),
    path("", include("allauth.account.urls")),
    path("second-factor/", include("allauth.mfa.urls")),
    path("", include("frontend.urls")),
]

handler400 = errors.bad_request
handler403 = errors.forbidden
handler404 = errors.not_found
handler429 = errors.too_many_requests
handler500 = errors.internal
