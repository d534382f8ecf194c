"""URLs below ``/api/v1/``: corpora, datasets, uploads and checks."""

from django.urls import path

from tenants.datasets.api.corpora import CorporaView, CorpusPreviewView, CorpusView, PlatformCorporaView
from tenants.datasets.api.datasets import (
    DatasetCorrectionsView,
    DatasetPreviewView,
    DatasetsView,
    DatasetView,
)
from tenants.datasets.api.rows import DatasetEditsView, DatasetRowsView, DatasetSplitView
from tenants.datasets.api.uploads import ChecksView, CheckView, UploadsView, UploadView

in_tenant = [
    path("corpora", CorporaView.as_view()),
    path("corpora/preview", CorpusPreviewView.as_view()),
    path("corpora/<int:corpus_id>", CorpusView.as_view()),
    path("datasets", DatasetsView.as_view()),
    path("datasets/preview", DatasetPreviewView.as_view()),
    path("datasets/<int:dataset_id>", DatasetView.as_view()),
    path("datasets/<int:dataset_id>/corrections", DatasetCorrectionsView.as_view()),
    path("datasets/<int:dataset_id>/rows", DatasetRowsView.as_view()),
    path("datasets/<int:dataset_id>/edits", DatasetEditsView.as_view()),
    path("datasets/<int:dataset_id>/splits/<str:split>", DatasetSplitView.as_view()),
    path("uploads", UploadsView.as_view()),
    path("uploads/<uuid:upload_id>", UploadView.as_view()),
    path("checks", ChecksView.as_view()),
    path("checks/<uuid:check_id>", CheckView.as_view()),
]
platform = [path("corpora", PlatformCorporaView.as_view())]
