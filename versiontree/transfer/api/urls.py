"""``/api/v1/``: versions that are exported and imported, and takeouts."""

from django.urls import path

from versiontree.transfer.api import archives, takeouts

in_tenant = [
    path("versions/<int:version_id>/export", archives.VersionExportView.as_view()),
    path("import", archives.ImportView.as_view()),
    path("import/adapter", archives.ImportAdapterView.as_view()),
    path("takeouts", takeouts.TakeoutsView.as_view()),
    path("takeouts/<uuid:takeout_id>", takeouts.TakeoutView.as_view()),
    path("takeouts/<uuid:takeout_id>/file", takeouts.TakeoutFileView.as_view()),
]
platform = [
    path("versions/<int:version_id>/export", archives.PlatformVersionExportView.as_view()),
    path("import", archives.PlatformImportView.as_view()),
]
