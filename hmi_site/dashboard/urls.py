"""URLs of the admin that belong to no model."""

from django.urls import URLPattern, path

from hmi_site.dashboard import views


def dashboard_urls() -> list[URLPattern]:
    """The URL patterns below /admin/, in its namespace."""
    return [
        path("live/", views.dashboard_live, name="dashboard-live"),
        path("serving/", views.workers, name="serving-workers"),
        path("serving/drain/", views.drain_all, name="serving-drain"),
        path("serving/<str:worker>/<str:command>/", views.command_worker, name="serving-command"),
    ]
