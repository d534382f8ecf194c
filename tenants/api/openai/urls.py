"""``/v1/``, as the OpenAI conventions have it: files, whole and in parts. A key says whose they are; people
name ``?tenant=``."""

from django.urls import path

from tenants.api.openai.files import OpenAiFileContentView, OpenAiFilesView, OpenAiFileView
from tenants.api.openai.uploads import (
    OpenAiPartsView,
    OpenAiUploadCancelView,
    OpenAiUploadCompleteView,
    OpenAiUploadsView,
)

urlpatterns = [
    path("files", OpenAiFilesView.as_view()),
    path("files/<str:file_id>", OpenAiFileView.as_view()),
    path("files/<str:file_id>/content", OpenAiFileContentView.as_view()),
    path("uploads", OpenAiUploadsView.as_view()),
    path("uploads/<str:openai_upload_id>/parts", OpenAiPartsView.as_view()),
    path("uploads/<str:openai_upload_id>/complete", OpenAiUploadCompleteView.as_view()),
    path("uploads/<str:openai_upload_id>/cancel", OpenAiUploadCancelView.as_view()),
]
