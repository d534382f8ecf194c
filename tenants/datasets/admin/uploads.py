"""Admin of corpora, datasets, uploads, checks and files."""

from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.widgets import UnfoldAdminFileFieldWidget

from tenants.base.admin.base import (
    AutocompleteFilterAdmin,
    ModelForm,
    NoAddOrChangeAdmin,
    NonAtomicAdmin,
    ReadOnlyAdmin,
    ReadOnlyInline,
    file_size_column,
    parse_ids,
    pretty_json,
    staff_user,
)
from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Dataset, DatasetSplit, Upload, UploadCheck
from tenants.datasets.services.corpora import corpus_delete, corpus_preview, corpus_upload
from tenants.datasets.services.datasets import dataset_delete
from tenants.datasets.services.uploads import upload_delete

PLATFORM: Final = "platform"
"""The value of the filter ``owner`` for the platform's corpora only. Otherwise it is a tenant's key."""


class CorpusForm(ModelForm):
    """The upload of a corpus."""

    file = forms.FileField(
        widget=UnfoldAdminFileFieldWidget, help_text="UTF-8 text, one text a line, or JSON lines with “text”."
    )

    class Meta:
        model = Corpus
        fields = ("tenant", "name")

    def clean_file(self) -> Any:
        """Return the file, or raise ValidationError if it is not a valid corpus."""
        file = self.cleaned_data["file"]
        try:
            corpus_preview(stream=file, filename=file.name)
        except HmiError as error:
            raise forms.ValidationError(error.message, code=str(error.code)) from error
        file.seek(0)
        return file


@admin.register(Corpus)
class CorpusAdmin(AutocompleteFilterAdmin, NonAtomicAdmin):
    """Corpora, which can be deleted but not edited. Those without a tenant are the platform's."""

    autocomplete_filters: ClassVar = {
        "owner": lambda rows, owner: rows.filter(Q(tenant=None) | Q(tenant__in=parse_ids(owner))),
    }

    form = CorpusForm
    size = file_size_column("size_bytes")
    list_display = ("name", "tenant", "rows", "words", "size", "created_by", "created_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_select_related = ("tenant", "created_by")
    search_fields = ("name", "tenant__slug", "sha256")
    autocomplete_fields = ("tenant",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("tenant", "name", "file") if obj is None else (*self.list_display, "sha256", "report_json")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("size", "report_json")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="Validation report")
    def report_json(self, corpus: Corpus) -> SafeString:
        """Return the report as indented JSON."""
        return pretty_json(corpus.report)

    def save_model(self, request: HttpRequest, obj: Corpus, form: ModelForm, change: bool) -> None:
        file = form.cleaned_data["file"]
        corpus = corpus_upload(
            tenant=obj.tenant, name=obj.name, stream=file, filename=file.name, actor=staff_user(request)
        )
        obj.pk, obj._state.adding = corpus.pk, False

    def delete_model(self, request: HttpRequest, obj: Corpus) -> None:
        corpus_delete(corpus=obj, actor=staff_user(request))


class DatasetSplitInline(ReadOnlyInline):
    """The files of a dataset."""

    model = DatasetSplit
    size = file_size_column("size_bytes")
    fields = ("split", "rows", "size")


@admin.register(Dataset)
class DatasetAdmin(NoAddOrChangeAdmin, AutocompleteFilterAdmin):
    """Datasets, which can be deleted but not edited. Tenants upload them."""

    autocomplete_filters: ClassVar = {
        "tenant": lambda rows, tenant: rows.filter(tenant__in=parse_ids(tenant)),
        "task": lambda rows, task: rows.filter(task=task),
    }

    list_display = ("name", "tenant", "task", "pairs", "label_count", "row_count", "created_by", "created_at")
    list_filter = (
        "task",
        "pairs",
        "leaks_allowed",
        ("tenant", AutocompleteSelectFilter),
        "created_at",
    )
    list_select_related = ("tenant", "created_by")
    ordering = ("-created_at", "-id")
    search_fields = ("name", "tenant__slug")
    fields = (
        "name",
        "tenant",
        "task",
        "pairs",
        "label_names",
        "leaks_allowed",
        "created_by",
        "created_at",
        "report_json",
    )
    readonly_fields = fields
    inlines = (DatasetSplitInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        datasets: QuerySet[Any] = super().get_queryset(request).annotate(row_count=Sum("splits__rows"))
        return datasets

    @admin.display(description="Labels")
    def label_count(self, dataset: Dataset) -> str:
        """Return the number of labels."""
        return f"{len(dataset.labels):,}"

    @admin.display(description="Labels")
    def label_names(self, dataset: Dataset) -> str:
        """Return the labels as text."""
        return ", ".join(dataset.labels)

    @admin.display(description="Rows", ordering="row_count")
    def row_count(self, dataset: Any) -> str:
        """Return the number of rows of all splits."""
        return f"{dataset.row_count or 0:,}"

    @admin.display(description="Validation report")
    def report_json(self, dataset: Dataset) -> SafeString:
        """Return the report as indented JSON."""
        return pretty_json(dataset.report)

    def delete_model(self, request: HttpRequest, obj: Dataset) -> None:
        dataset_delete(dataset=obj, actor=staff_user(request))


@admin.register(Upload)
class UploadAdmin(NoAddOrChangeAdmin):
    """Uploads that are not used yet. They can be deleted."""

    size = file_size_column("size_bytes")
    list_display = ("filename", "tenant", "size", "complete", "created_by", "created_at", "expires_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_select_related = ("tenant", "created_by")
    search_fields = ("filename", "tenant__slug", "sha256")

    @admin.display(description="Complete", boolean=True)
    def complete(self, upload: Upload) -> bool:
        """Return whether all bytes arrived."""
        return upload.is_complete

    def delete_model(self, request: HttpRequest, obj: Upload) -> None:
        upload_delete(upload=obj)


@admin.register(UploadCheck)
class UploadCheckAdmin(ReadOnlyAdmin):
    """Checks of uploads, with the errors of refused ones."""

    size = file_size_column("size_bytes")
    list_display = ("name", "kind", "tenant", "state", "size", "created_at", "finished_at")
    list_filter = ("state", "kind", ("tenant", AutocompleteSelectFilter))
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__slug")
    exclude = ("preview", "row_errors", "error", "options", "files")
    readonly_fields = ("error_json",)

    @admin.display(description="Error")
    def error_json(self, check: Any) -> SafeString:
        """Return the error as indented JSON."""
        return pretty_json(check.error)
