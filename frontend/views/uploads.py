"""Uploading: files come in, are checked, and are stored once what was found has been seen."""

from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import bad_rows_response
from frontend.forms.data import ColumnsForm, CorpusForm, DatasetForm, UploadForm, form_of
from frontend.presenters.data import found_context
from frontend.shortcuts import redirect_to, render_page, try_write
from tenants.accounts.models import Role
from tenants.base.errors import HmiError
from tenants.base.upload_concurrency import accepts_uploads
from tenants.datasets.models import CheckKind, CheckState, Upload, UploadCheck
from tenants.datasets.selectors.previews import check_columns
from tenants.datasets.selectors.uploads import check_of, upload_of
from tenants.datasets.services.checks import check_create, check_error
from tenants.datasets.services.uploads import upload_delete, upload_receive


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def corpus_new(request: TenantRequest) -> HttpResponse:
    """The form of a corpus, perhaps as `?check=` had it; POST stores it."""
    return _new(request, CheckKind.CORPUS, CorpusForm)


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def dataset_new(request: TenantRequest) -> HttpResponse:
    """The form of a dataset, perhaps as `?check=` had it; POST stores it."""
    return _new(request, CheckKind.DATASET, DatasetForm)


@accepts_uploads
@require_POST
@tenant_member_required(Role.DEVELOPER)
def corpus_check(request: TenantRequest) -> HttpResponse:
    """What is in the file: counts, first rows, warnings, or what is wrong with it. Nothing is stored."""
    return _check(request, CheckKind.CORPUS, CorpusForm(request.POST, request.FILES))


@accepts_uploads
@require_POST
@tenant_member_required(Role.DEVELOPER)
def dataset_check(request: TenantRequest) -> HttpResponse:
    """What is in the files: counts, labels, first rows, warnings; or what is wrong. Nothing is stored."""
    return _check(request, CheckKind.DATASET, DatasetForm(request.POST, request.FILES))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def upload_remove(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Throw away a file that came in, or half of it."""
    upload = upload_of(request.access.tenant, request.user, pk)
    upload_delete(upload=upload)
    return redirect_to(request, "data", message=f"Upload {upload.filename} discarded.")


@require_GET
@tenant_member_required(Role.DEVELOPER)
def check(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Where a check is, and what it found; as a page, or as the fragment that follows it."""
    found = check_of(request.access.tenant, pk)
    if found.state == CheckState.STORED:
        return _to_what_is_stored(request, found)
    if request.htmx:
        return render_page(request, "data/check.html", full="full" in request.GET, **_context(found))
    return render_page(request, "data/check_page.html", full=True, **_context(found))


@require_GET
@tenant_member_required(Role.DEVELOPER)
def check_bad_rows(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The rows that were refused, each with its place and the reason, as CSV."""
    return bad_rows_response(check_of(request.access.tenant, pk).row_errors)


def _new(request: TenantRequest, kind: CheckKind, blank: type[UploadForm]) -> HttpResponse:
    if request.method == "POST":
        return _store(request, kind, blank(request.POST, request.FILES))
    before = _check_before(request, kind)
    if before is None:
        return render_page(request, f"data/{kind}_new.html", form=blank())
    return render_page(request, f"data/{kind}_new.html", form=form_of(before), columns=_columns(before))


def _store(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = try_write(form, lambda: _begin(request, kind, form, store=True)) if form.is_valid() else None
    if check is None:
        return render_page(request, f"data/{kind}_new.html", form=form)
    if check.state == CheckState.REFUSED:
        _show_refusal(form, check_error(check))
        columns = _columns(check)
        _delete_companion_uploads(request, check)
        return render_page(request, f"data/{kind}_new.html", form=form, columns=columns)
    if check.is_active:
        return redirect_to(request, "check", check.pk)
    return _to_what_is_stored(request, check)


def _check_before(request: TenantRequest, kind: CheckKind) -> UploadCheck | None:
    """The check whose files and choices the form begins with."""
    try:
        check = check_of(request.access.tenant, UUID(request.GET.get("check", "")))
    except ValueError:
        return None
    return check if check.kind == kind else None


def _check(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = try_write(form, lambda: _begin(request, kind, form, store=False)) if form.is_valid() else None
    if check is None:
        return render_page(request, "data/refused.html", form=form)
    return render_page(request, "data/check.html", **_context(check))


def _begin(request: TenantRequest, kind: CheckKind, form: UploadForm, *, store: bool) -> UploadCheck:
    tenant, actor = request.access.tenant, request.user

    def upload(file: "UploadedFile[Any] | UUID") -> Upload:
        if isinstance(file, UUID):
            return upload_of(tenant, actor, file)
        name, size = file.name or "", file.size or 0
        return upload_receive(tenant=tenant, filename=name, size=size, stream=file, actor=actor)

    return check_create(
        tenant=tenant,
        kind=kind,
        files={purpose: upload(file) for purpose, file in form.given().items()},
        name=form.cleaned_data["name"],
        options=form.options(),
        store=store,
        actor=actor,
    )


def _show_refusal(form: UploadForm, refusal: HmiError) -> None:
    """Put a refusal beside its field."""
    form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)


def _columns(check: UploadCheck) -> ColumnsForm | None:
    """The choice among the columns of its files, if they have any."""
    found = check_columns(check)
    return ColumnsForm(check, found) if found.examples else None


def _delete_companion_uploads(request: TenantRequest, check: UploadCheck) -> None:
    """Files that a form brought must be chosen again, so they need not be kept."""
    for purpose in check.files.keys() & request.FILES.keys():
        upload_delete(upload=upload_of(request.access.tenant, request.user, check.files[purpose]))


def _context(check: UploadCheck) -> dict[str, Any]:
    if check.is_active:
        return {"check": check}
    seen = {"check": check, "columns": _columns(check)}
    if check.state == CheckState.PASSED:
        return seen | found_context(check)
    return seen | {"refusal": check_error(check)}


def _to_what_is_stored(request: TenantRequest, check: UploadCheck) -> HttpResponse:
    made = check.corpus_id or check.dataset_id
    response = redirect_to(
        request, check.kind, made, message=f"{check.get_kind_display()} {check.name} saved."
    )
    return HttpResponseClientRedirect(response["Location"]) if request.htmx else response
