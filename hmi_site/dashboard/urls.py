"""Addresses of the administration that are of no model."""

from django.urls import URLPattern, path

from hmi_site.dashboard import views


def addresses() -> list[URLPattern]:
    """Below /admin/, and in its namespace."""
    return [
        path("live/", views.dashboard_live, name="dashboard-live"),
        path("serving/", views.workers, name="serving-workers"),
        path("serving/drain/", views.drain_all, name="serving-drain"),
        path("serving/<str:worker>/<str:what>/", views.tell, name="serving-order"),
    ]
