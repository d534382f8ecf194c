"""``/api/v1/``: batches of a tenant."""

from django.urls import path

from inference.batches.api import batches

in_tenant = [
    path("batches", batches.BatchesView.as_view()),
    path("batches/<uuid:batch_id>", batches.BatchView.as_view()),
    path("batches/<uuid:batch_id>/cancel", batches.BatchCancelView.as_view()),
    path("batches/<uuid:batch_id>/results", batches.BatchResultsView.as_view()),
    path("batches/<uuid:batch_id>/errors", batches.BatchErrorsView.as_view()),
]
