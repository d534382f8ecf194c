"""Uploads of corpora and datasets: forms, checks of files, and storing."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import bad_rows_response
from frontend.forms.data import (
    ColumnsForm,
    CorpusForm,
    DatasetForm,
    UploadForm,
    columns_chosen,
    form_of,
)
from frontend.presenters.data import check_context
from frontend.shortcuts import action_result, redirect_to, render_page, submit_form
from tenants.accounts.models import Role
from tenants.base.errors import HmiError
from tenants.base.plurals import counted
from tenants.base.upload_concurrency import accepts_uploads
from tenants.datasets.models import CheckKind, CheckState, Task, Upload, UploadCheck
from tenants.datasets.selectors.previews import check_columns, files_columns, files_task
from tenants.datasets.selectors.uploads import check_of, corpus_of, upload_of, uploads_of
from tenants.datasets.services.checks import check_create, check_error
from tenants.datasets.services.samples import dataset_add_sample
from tenants.datasets.services.uploads import upload_delete, upload_receive
from versiontree.names import slug_of
from versiontree.tree.models import RootKind
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.versions import parents_ready_for


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def new_corpus(request: TenantRequest) -> HttpResponse:
    """The form for a corpus, filled from `?check=` if given. POST stores the corpus."""
    return _new(request, CheckKind.CORPUS, CorpusForm)


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required(Role.DEVELOPER)
def new_dataset(request: TenantRequest) -> HttpResponse:
    """The form for a dataset, filled from `?check=` if given. POST stores the dataset."""
    return _new(request, CheckKind.DATASET, DatasetForm)


@accepts_uploads
@require_POST
@tenant_member_required(Role.DEVELOPER)
def check_corpus(request: TenantRequest) -> HttpResponse:
    """Check the file of a corpus without storing it: counts, first rows, warnings or errors."""
    return _check(request, CheckKind.CORPUS, CorpusForm(request.POST, request.FILES))


@accepts_uploads
@require_POST
@tenant_member_required(Role.DEVELOPER)
def check_dataset(request: TenantRequest) -> HttpResponse:
    """Check the files of a dataset without storing them: counts, labels, first rows, warnings or errors."""
    return _check(request, CheckKind.DATASET, DatasetForm(request.POST, request.FILES))


@require_POST
@tenant_member_required(Role.DEVELOPER)
def add_sample(request: TenantRequest) -> HttpResponse:
    """Store a sample dataset, and lead on to a model that learns from it."""
    tenant, sample = request.access.tenant, request.POST.get("sample", "")
    made = action_result(
        request, lambda: dataset_add_sample(tenant=tenant, sample=sample, actor=request.user)
    )
    return redirect_to(request, "data") if made is None else _redirect_to_new_model(request, made.pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def discard_uploads(request: TenantRequest) -> HttpResponse:
    """Discard all unused uploads of the user."""
    uploads = list(uploads_of(request.access.tenant, request.user))
    for upload in uploads:
        upload_delete(upload=upload)
    return redirect_to(request, "data", message=f"{counted(len(uploads), 'upload')} discarded.")


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete_upload(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Discard an upload, complete or not."""
    upload = upload_of(request.access.tenant, request.user, pk)
    upload_delete(upload=upload)
    return redirect_to(request, "data", message=f"Upload {upload.filename} discarded.")


@require_GET
@tenant_member_required(Role.DEVELOPER)
def check(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The progress or result of a check. A request by htmx gets only the live part."""
    found = check_of(request.access.tenant, pk)
    if found.state == CheckState.STORED:
        return _redirect_to_stored(request, found)
    if request.htmx:
        return render_page(request, "data/check.html", full="full" in request.GET, **_context(found))
    return render_page(request, "data/check_page.html", full=True, **_context(found))


@require_GET
@tenant_member_required(Role.DEVELOPER)
def bad_rows(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Download the invalid rows with position and reason, as CSV."""
    return bad_rows_response(check_of(request.access.tenant, pk).row_errors)


def _new(request: TenantRequest, kind: CheckKind, blank: type[UploadForm]) -> HttpResponse:
    if request.method == "POST":
        return _store(request, kind, blank(request.POST, request.FILES))
    check = _check_of_query(request, kind)
    if check is None:
        return render_page(request, f"data/{kind}_new.html", form=blank())
    return render_page(request, f"data/{kind}_new.html", form=form_of(check), columns=_columns(check))


def _store(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = submit_form(form, lambda: _create_check(request, kind, form, store=True))
    if check is None:
        return render_page(request, f"data/{kind}_new.html", form=form)
    if check.state == CheckState.REFUSED:
        _add_refusal(form, check_error(check))
        columns = _columns(check)
        _delete_companion_uploads(request, check)
        return render_page(request, f"data/{kind}_new.html", form=form, columns=columns)
    if check.is_active:
        return redirect_to(request, "check", check.pk)
    return _redirect_to_stored(request, check)


def _check_of_query(request: TenantRequest, kind: CheckKind) -> UploadCheck | None:
    """Return the check of `?check=`, whose files and options fill the form."""
    try:
        check = check_of(request.access.tenant, UUID(request.GET.get("check", "")))
    except ValueError:
        return None
    return check if check.kind == kind else None


def _check(request: TenantRequest, kind: CheckKind, form: UploadForm) -> HttpResponse:
    check = submit_form(form, lambda: _create_check(request, kind, form, store=False))
    if check is None:
        return render_page(request, "data/invalid_form.html", form=form)
    return render_page(request, "data/check.html", **_context(check))


def _create_check(request: TenantRequest, kind: CheckKind, form: UploadForm, *, store: bool) -> UploadCheck:
    tenant, actor = request.access.tenant, request.user

    def upload(file: "UploadedFile[Any] | UUID") -> Upload:
        if isinstance(file, UUID):
            return upload_of(tenant, actor, file)
        name, size = file.name or "", file.size or 0
        return upload_receive(tenant=tenant, filename=name, size=size, stream=file, actor=actor)

    files = {purpose: upload(file) for purpose, file in form.given().items()}
    options = form.options()
    if kind == CheckKind.DATASET:
        options["task"] = task = options["task"] or files_task(files)
        options["columns"] = columns_chosen(form.data, task) or None
        if not store and not options["columns"]:
            options["columns"] = files_columns(files, task).needed_mapping(task)
    return check_create(
        tenant=tenant,
        kind=kind,
        files=files,
        name=form.cleaned_data["name"],
        options=options,
        store=store,
        actor=actor,
    )


def _add_refusal(form: UploadForm, refusal: HmiError) -> None:
    """Add the error of a check to its field."""
    form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)


def _columns(check: UploadCheck) -> ColumnsForm | None:
    """Return the form that maps the columns of the files; None if they have no columns."""
    found = check_columns(check)
    return ColumnsForm(check, found) if found.examples else None


def _delete_companion_uploads(request: TenantRequest, check: UploadCheck) -> None:
    """Delete files that came with the form: the user has to choose them again."""
    for purpose in check.files.keys() & request.FILES.keys():
        upload_delete(upload=upload_of(request.access.tenant, request.user, check.files[purpose]))


def _context(check: UploadCheck) -> dict[str, Any]:
    if check.is_active:
        return {"check": check}
    context: dict[str, Any] = {"check": check, "columns": _columns(check)}
    if check.kind == CheckKind.DATASET:
        context["task"] = Task(check.options["task"]).label
    if check.state == CheckState.PASSED:
        return context | check_context(check)
    return context | {"refusal": check_error(check)}


def _redirect_to_new_model(request: TenantRequest, dataset: int) -> HttpResponse:
    """Redirect to the last step of a new model from a dataset, with everything else chosen."""
    response = redirect_to(request, "model_new")
    query = urlencode({"dataset": dataset, "step": "review"})
    return redirect(f"{response['Location']}?{query}")


def _redirect_to_new_domain(request: TenantRequest, corpus: int) -> HttpResponse:
    """Redirect to the form for a domain from a corpus, named after it, on a root."""
    tenant = request.access.tenant
    roots = parents_ready_for(tenant).filter(kind=VersionKind.ROOT, root__kind=RootKind.ENCODER)
    filled = {"corpus": corpus, "name": slug_of(corpus_of(tenant, corpus).name)}
    root = roots.first()
    filled |= {} if root is None else {"parent": root.pk}
    return redirect(f"{redirect_to(request, 'domain_new')['Location']}?{urlencode(filled)}")


def _redirect_to_stored(request: TenantRequest, check: UploadCheck) -> HttpResponse:
    made = check.corpus_id or check.dataset_id
    if check.dataset_id and request.POST.get("then") == "model":
        return _redirect_to_new_model(request, check.dataset_id)
    if check.corpus_id and request.POST.get("then") == "domain":
        return _redirect_to_new_domain(request, check.corpus_id)
    response = redirect_to(
        request, check.kind, made, message=f"{check.get_kind_display()} {check.name} saved."
    )
    return HttpResponseClientRedirect(response["Location"]) if request.htmx else response
