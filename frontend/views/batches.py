"""Batches: files of inputs that a model answers at low priority."""

from uuid import UUID

from django.http import FileResponse, HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from frontend.access import TenantRequest, tenant_member_required
from frontend.downloads import CSV_TYPE, DownloadResponse
from frontend.forms.batches import BatchForm, model_name
from frontend.shortcuts import paginate, redirect_to, render_page, run_action, submit_form
from inference.batches.models import Batch
from inference.batches.selectors import batch_file_open, batch_first_failures, batch_of, batches_of
from inference.batches.services.batches import batch_cancel, batch_delete, batch_submit
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import accepts_uploads
from versiontree.tree.selectors.callable_hplms import callable_hplms


@accepts_uploads
@require_http_methods(["GET", "POST"])
@tenant_member_required()
def index(request: TenantRequest) -> HttpResponse:
    """The list of batches, and the form for a new one."""
    if request.method == "POST" and not request.access.can_write:
        raise HmiError(ErrorCode.FORBIDDEN, "You need the role developer to start a batch.")
    tenant = request.access.tenant
    page, offers = paginate(request, batches_of(tenant)), callable_hplms(tenant)
    usual = [batch.model for batch in page.object_list[:1]] + [model_name(one.reference) for one in offers]
    initial = {"model": next(iter(usual), ""), **request.GET.dict()}
    form = BatchForm(request.POST or None, request.FILES or None, initial=initial)
    batch = submit_form(form, lambda: _submit(request, form))
    if batch is not None:
        response = redirect_to(request, "batch", batch.pk)
        return HttpResponseClientRedirect(response["Location"]) if request.htmx else response
    return render_page(
        request, "batches/index.html", form=form, page=page, rows=page.object_list, offers=offers
    )


@require_GET
@tenant_member_required()
def page(request: TenantRequest, pk: UUID) -> HttpResponse:
    """The page of a batch. A request by htmx gets only the progress part."""
    template = "batches/progress.html" if request.htmx else "batches/page.html"
    batch = batch_of(request.access.tenant, pk)
    row = "row" if batch.columns else "line"
    return render_page(
        request,
        template,
        batch=batch,
        row=row,
        failures=batch_first_failures(batch),
        failures_title=f"First failed {row}s",
    )


@require_POST
@tenant_member_required(Role.DEVELOPER)
def cancel(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Cancel a batch. The results so far are kept."""
    batch = batch_of(request.access.tenant, pk)
    run_action(request, lambda: batch_cancel(batch=batch, actor=request.user), message="Batch canceled.")
    return redirect_to(request, "batch", pk)


@require_POST
@tenant_member_required(Role.DEVELOPER)
def delete(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Delete a finished batch with its files."""
    batch = batch_of(request.access.tenant, pk)
    message = f"Batch {batch.filename} deleted."
    deleted = run_action(request, lambda: batch_delete(batch=batch, actor=request.user), message=message)
    return redirect_to(request, "batches") if deleted else redirect_to(request, "batch", pk)


@require_GET
@tenant_member_required()
def results(request: TenantRequest, pk: UUID) -> FileResponse:
    """Download the results."""
    return _download(batch_of(request.access.tenant, pk), "results")


@require_GET
@tenant_member_required()
def errors(request: TenantRequest, pk: UUID) -> FileResponse:
    """Download the failed lines with their errors."""
    return _download(batch_of(request.access.tenant, pk), "errors")


def _download(batch: Batch, kind: str) -> FileResponse:
    stream, name = batch_file_open(batch, kind)
    content_type = CSV_TYPE if name.endswith(".csv") else "application/jsonl"
    return DownloadResponse(stream, as_attachment=True, filename=name, content_type=content_type)


def _submit(request: TenantRequest, form: BatchForm) -> Batch | None:
    file = form.cleaned_data["file"]
    try:
        return batch_submit(
            tenant=request.access.tenant,
            model=form.cleaned_data["model"],
            filename=file.name,
            stream=file,
            actor=request.user,
            columns=form.columns(),
        )
    except HmiError as error:
        if error.code != ErrorCode.MISSING_COLUMN:
            raise
        form.columns_in_question(error)
        return None
