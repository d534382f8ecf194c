"""Corpora and datasets."""

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
from tenants.datasets.models import Corpus, Dataset, DatasetSplit, File, MultipartUpload, Upload, UploadCheck
from tenants.datasets.services.corpora import corpus_delete, corpus_preview, corpus_upload
from tenants.datasets.services.datasets import dataset_delete
from tenants.datasets.services.uploads import upload_delete

PLATFORM: Final = "platform"
"""Whose corpora a form may look for: these, or a tenant's by its key and these."""


class CorpusForm(ModelForm):
    """An upload; the file is checked like any other."""

    file = forms.FileField(
        widget=UnfoldAdminFileFieldWidget, help_text="UTF-8 text, one text a line, or JSON lines with “text”."
    )

    class Meta:
        model = Corpus
        fields = ("tenant", "name")

    def clean_file(self) -> Any:
        """The file, if it can be a corpus."""
        file = self.cleaned_data["file"]
        try:
            corpus_preview(stream=file, filename=file.name)
        except HmiError as error:
            raise forms.ValidationError(error.message, code=str(error.code)) from error
        file.seek(0)
        return file


@admin.register(Corpus)
class CorpusAdmin(AutocompleteFilterAdmin, NonAtomicAdmin):
    """Corpora; those without a tenant are the platform's. Uploaded, looked at and deleted, never changed."""

    autocomplete_filters: ClassVar = {
        "of": lambda rows, owner: rows.filter(Q(tenant=None) | Q(tenant__in=parse_ids(owner))),
    }

    form = CorpusForm
    size = file_size_column("size_bytes")
    list_display = ("name", "tenant", "rows", "words", "size", "created_by", "created_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("name", "tenant__slug", "sha256")
    autocomplete_fields = ("tenant",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("tenant", "name", "file") if obj is None else (*self.list_display, "sha256", "shown_report")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else ("size", "shown_report")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="Validation report")
    def shown_report(self, corpus: Corpus) -> SafeString:
        """The report, readable."""
        return pretty_json(corpus.report)

    def save_model(self, request: HttpRequest, obj: Corpus, form: ModelForm, change: bool) -> None:
        file = form.cleaned_data["file"]
        made = corpus_upload(
            tenant=obj.tenant, name=obj.name, stream=file, filename=file.name, actor=staff_user(request)
        )
        obj.pk, obj._state.adding = made.pk, False

    def delete_model(self, request: HttpRequest, obj: Corpus) -> None:
        corpus_delete(corpus=obj, actor=staff_user(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Corpus]) -> None:
        for corpus in queryset:
            corpus_delete(corpus=corpus, actor=staff_user(request))


class DatasetSplitInline(ReadOnlyInline):
    """The files of a dataset."""

    model = DatasetSplit
    size = file_size_column("size_bytes")
    fields = ("split", "rows", "size", "sha256")


@admin.register(Dataset)
class DatasetAdmin(NoAddOrChangeAdmin, AutocompleteFilterAdmin):
    """Datasets, to look at and delete; tenants upload their own."""

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
    list_filter_submit = True
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
        "shown_report",
    )
    readonly_fields = fields
    inlines = (DatasetSplitInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        datasets: QuerySet[Any] = super().get_queryset(request).annotate(row_count=Sum("splits__rows"))
        return datasets

    @admin.display(description="Labels")
    def label_count(self, dataset: Dataset) -> int:
        """How many labels it has."""
        return len(dataset.labels)

    @admin.display(description="Labels")
    def label_names(self, dataset: Dataset) -> str:
        """What they are called."""
        return ", ".join(dataset.labels)

    @admin.display(description="Rows", ordering="row_count")
    def row_count(self, dataset: Any) -> int:
        """The rows of all splits."""
        return int(dataset.row_count or 0)

    @admin.display(description="Validation report")
    def shown_report(self, dataset: Dataset) -> SafeString:
        """The report, readable."""
        return pretty_json(dataset.report)

    def delete_model(self, request: HttpRequest, obj: Dataset) -> None:
        dataset_delete(dataset=obj, actor=staff_user(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Dataset]) -> None:
        for dataset in queryset:
            dataset_delete(dataset=dataset, actor=staff_user(request))


@admin.register(DatasetSplit)
class DatasetSplitAdmin(NoAddOrChangeAdmin):
    """All stored splits, to look at; they go with their dataset."""

    size = file_size_column("size_bytes")
    list_display = ("dataset", "split", "rows", "size", "sha256")
    list_filter = ("split",)
    list_select_related = ("dataset__tenant",)
    search_fields = ("dataset__name", "sha256")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Asked for when a dataset is deleted with its splits; there is no such button here.
        return obj is not None and super().has_delete_permission(request, obj)


@admin.register(Upload)
class UploadAdmin(NoAddOrChangeAdmin):
    """Uploads that nothing was made of yet, to look at and throw away."""

    size = file_size_column("size_bytes")
    list_display = ("filename", "tenant", "size", "is_whole", "created_by", "created_at", "expires_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("filename", "tenant__slug", "sha256")

    @admin.display(description="Complete", boolean=True)
    def is_whole(self, upload: Upload) -> bool:
        """Whether all of it is here."""
        return upload.is_complete

    def delete_model(self, request: HttpRequest, obj: Upload) -> None:
        upload_delete(upload=obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Upload]) -> None:
        for upload in queryset:
            upload_delete(upload=upload)


@admin.register(UploadCheck)
class UploadCheckAdmin(ReadOnlyAdmin):
    """What was found in uploads, or why they were refused."""

    size = file_size_column("size_bytes")
    list_display = ("name", "kind", "tenant", "state", "size", "attempts", "created_at", "finished_at")
    list_filter = ("state", "kind", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("name", "tenant__slug")
    exclude = ("preview", "row_errors", "error", "options", "files")
    readonly_fields = ("why",)

    @admin.display(description="Why it was refused")
    def why(self, check: Any) -> SafeString:
        """The error as the tenant got it."""
        return pretty_json(check.error)


@admin.register(File)
class FileAdmin(ReadOnlyAdmin):
    """What was sent to be learnt from or answered, and what batches were answered."""

    size = file_size_column("size_bytes")
    list_display = ("filename", "purpose", "tenant", "size", "created_by", "created_at", "expires_at")
    list_filter = ("purpose", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = ("tenant", "created_by")
    search_fields = ("filename", "tenant__slug", "sha256")
    show_full_result_count = False


@admin.register(MultipartUpload)
class MultipartUploadAdmin(ReadOnlyAdmin):
    """Files that come in parts."""

    size = file_size_column("size_bytes")
    list_display = ("filename", "purpose", "tenant", "size", "state", "created_at", "expires_at")
    list_filter = ("state", "purpose", ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("filename", "tenant__slug")
    show_full_result_count = False
