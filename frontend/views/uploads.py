"""Uploading: files come in, are checked, and are stored once what was found has been seen."""

from typing import Any
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from frontend.access import TenantRequest, tenant_page
from frontend.bad_rows import bad_rows_csv
from frontend.forms.data import CorpusForm, DatasetForm, UploadForm
from frontend.pages import go, show
from frontend.presenters.data import found_context
from frontend.refusals import attempt
from tenants.errors import ErrorCode, HmiError
from tenants.models import CheckKind, CheckState, Role, Upload, UploadCheck
from tenants.selectors import check_of, upload_of
from tenants.services.checks import check_create, check_refusal
from tenants.services.uploads import upload_delete, upload_receive


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def corpus_new(request: TenantRequest) -> HttpResponse:
    """The form of a corpus; POST stores it."""
    return _new(request, CheckKind.CORPUS, CorpusForm(request.POST or None, request.FILES or None))


@require_http_methods(["GET", "POST"])
@tenant_page(Role.DEVELOPER)
def dataset_new(request: TenantRequest) -> HttpResponse:
    """The form of a dataset; POST stores it."""
    return _new(request, CheckKind.DATASET, DatasetForm(request.POST or None, request.FILES or None))


@require_POST
@tenant_page(Role.DEVELOPER)
def corpus_check(request: TenantRequest) -> HttpResponse:
    """What is in the file: counts, first rows, warnings, or what is wrong with it. Nothing is stored."""
    return _check(request, CheckKind.CORPUS, CorpusForm(request.POST, request.FILES))


@require_POST
@tenant_page(Role.DEVELOPER)
def dataset_check(request: TenantRequest) -> HttpResponse:
    """What is in the files: counts, labels, first rows, warnings; or what is wrong. Nothing is stored."""
    return _check(request, CheckKind.DATASET, DatasetForm(request.POST, request.FILES))


@require_POST
@tenant_page(Role.DEVELOPER)
def upload_remove(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Throw away a file that came in, or half of it."""
    upload = upload_of(request.place.tenant, request.user, pk)
    upload_delete(upload=upload)
    return go(request, "data", said=f"{upload.filename} is thrown away.")


@require_GET
@tenant_page(Role.DEVELOPER)
def check(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Where a check is, and what it found; as a page, or as the fragment that follows it."""
    found = check_of(request.place.tenant, pk)
    if found.state == CheckState.STORED:
        return _to_what_is_stored(request, found)
    template = "data/check.html" if request.htmx else "data/check_page.html"
    return show(request, template, **_context(found))


@require_GET
@tenant_page(Role.DEVELOPER)
def check_bad_rows(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The rows that were refused, each with its place and the reason, as CSV."""
    return bad_rows_csv(check_of(request.place.tenant, pk).faults)


def _new(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = attempt(form, lambda: _begin(request, kind, form, stores=True)) if form.is_valid() else None
    if check is not None and check.state == CheckState.REFUSED:
        _say(form, check_refusal(check))
        _forget_what_came_along(request, check)
        check = None
    if check is None:
        return show(request, f"data/{kind}_new.html", form=form)
    if check.is_active:
        return go(request, "check", check.pk)
    return _to_what_is_stored(request, check)


def _check(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = attempt(form, lambda: _begin(request, kind, form, stores=False)) if form.is_valid() else None
    if check is None:
        return show(request, "data/refused.html", form=form)
    if check.state == CheckState.REFUSED:
        _say(form, check_refusal(check))
    return show(request, "data/check.html", form=form, **_context(check))


def _begin(request: TenantRequest, kind: CheckKind, form: UploadForm, *, stores: bool) -> UploadCheck:
    tenant, actor = request.place.tenant, request.user

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
        stores=stores,
        actor=actor,
    )


def _say(form: UploadForm, refusal: HmiError) -> None:
    """Put a refusal beside its field; offer a file's own columns where they were not understood."""
    form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)
    if refusal.code == ErrorCode.MISSING_COLUMN and isinstance(form, DatasetForm):
        form.offer_columns((refusal.details or {}).get("found", ()))


def _forget_what_came_along(request: TenantRequest, check: UploadCheck) -> None:
    """Files that a form brought must be chosen again, so they need not be kept."""
    for purpose in check.files.keys() & request.FILES.keys():
        upload_delete(upload=upload_of(request.place.tenant, request.user, check.files[purpose]))


def _context(check: UploadCheck) -> dict[str, Any]:
    if check.state == CheckState.PASSED:
        return {"check": check, **found_context(check)}
    return {"check": check, "refusal": check_refusal(check) if check.refusal else None}


def _to_what_is_stored(request: TenantRequest, check: UploadCheck) -> HttpResponse:
    made = check.corpus_id or check.dataset_id
    response = go(request, check.kind, made, said=f"The {check.kind} {check.name} is stored.")
    return HttpResponseClientRedirect(response["Location"]) if request.htmx else response
