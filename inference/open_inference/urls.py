"""URLs of the Open Inference Protocol, below ``/v2/``.

A model is named `mood`, `acme/mood` (with its tenant) or `acme/mood@beta` (with an alias).
"""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from inference.open_inference.views import (
    ModelInferView,
    ModelReadyView,
    ModelView,
    VersionInferView,
    VersionReadyView,
    VersionView,
)


class ModelNameConverter(StringConverter):
    """A name, or a tenant and a name with a slash between them."""

    regex = "[^/]+(?:/[^/]+)?"


register_converter(ModelNameConverter, "model")

app_name = "oip"
MODEL, VERSION = "models/<model:model>", "/versions/<int:version>"
urlpatterns = [
    # The actions come first: a model of the tenant that is called `ready` has no tenant in its URL.
    path(f"{MODEL}/infer", ModelInferView.as_view(), name="infer"),
    path(f"{MODEL}/ready", ModelReadyView.as_view(), name="ready"),
    path(f"{MODEL}{VERSION}/infer", VersionInferView.as_view(), name="version-infer"),
    path(f"{MODEL}{VERSION}/ready", VersionReadyView.as_view(), name="version-ready"),
    path(f"{MODEL}{VERSION}", VersionView.as_view(), name="version"),
    path(MODEL, ModelView.as_view(), name="model"),
]
