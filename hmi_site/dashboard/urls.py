"""URLs of the admin that belong to no model."""

from django.urls import URLPattern, path

from hmi_site.dashboard import settings_in_use, views, workers


def dashboard_urls() -> list[URLPattern]:
    """The URL patterns below /admin/, in its namespace."""
    return [
        path("live/", views.dashboard_live, name="dashboard-live"),
        path("settings/", settings_in_use.settings_page, name="settings"),
        path("serving/", workers.workers, name="serving-workers"),
        path("serving/drain/", workers.drain_all, name="serving-drain"),
        path("serving/<path:worker>/trace.json", workers.trace, name="serving-trace"),
        path("serving/<path:worker>/<str:command>/", workers.command_worker, name="serving-command"),
    ]
