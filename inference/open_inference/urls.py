"""URLs below /v2/, as the Open Inference Protocol has them.

A model is named by its name, with its tenant or an alias, if need be: `mood`, `acme/mood`, `acme/mood@beta`.
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


class ModelName(StringConverter):
    """A name, or two with a slash between them; whether they name anything is decided later."""

    regex = "[^/]+(?:/[^/]+)?"


register_converter(ModelName, "model")

app_name = "oip"
MODEL, OF_VERSION = "models/<model:model>", "/versions/<int:version>"
urlpatterns = [
    # What the protocol says comes first: a model called `ready` is asked by its name alone.
    path(f"{MODEL}/infer", ModelInferView.as_view(), name="infer"),
    path(f"{MODEL}/ready", ModelReadyView.as_view(), name="ready"),
    path(f"{MODEL}{OF_VERSION}/infer", VersionInferView.as_view(), name="version-infer"),
    path(f"{MODEL}{OF_VERSION}/ready", VersionReadyView.as_view(), name="version-ready"),
    path(f"{MODEL}{OF_VERSION}", VersionView.as_view(), name="version"),
    path(MODEL, ModelView.as_view(), name="model"),
]
