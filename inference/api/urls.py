"""URLs below /api/v1/."""

from django.urls import path

from inference.api.views import InferCallView, InferView

app_name = "inference_api"
urlpatterns = [
    path("infer", InferView.as_view(), name="infer"),
    path("infer/<slug:request_id>", InferCallView.as_view(), name="infer-call"),
]
