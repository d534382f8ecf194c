"""Batches: files of inputs that a model answers when nothing else waits."""

from uuid import UUID

from django.http import FileResponse, HttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.downloads import Saved
from frontend.forms.playground import BatchForm
from frontend.pages import act, attempt, go, page_of, show
from inference.batches.models import Batch
from inference.batches.selectors import batch_file_opened, batch_of, batches_of
from inference.batches.services.batches import batch_cancel, batch_send
from inference.batches.services.deletion import batch_delete
from tenants.accounts.models import Role
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import takes_files


@takes_files
@require_http_methods(["GET", "POST"])
@tenant_page()
def index(request: TenantRequest) -> HttpResponse:
    """The batches, and a form for another."""
    if request.method == "POST" and not request.place.may_write:
        raise HmiError(ErrorCode.FORBIDDEN, "Beginning a batch needs the role developer.")
    form = BatchForm(request.POST or None, request.FILES or None, initial=request.GET.dict())
    batch = attempt(form, lambda: _send(request, form)) if form.is_valid() else None
    if batch is not None:
        return go(request, "batch", batch.pk)
    page = page_of(request, batches_of(request.place.tenant))
    return show(request, "batches/index.html", form=form, page=page, rows=page.object_list)


@require_GET
@tenant_page()
def page(request: TenantRequest, pk: UUID) -> HttpResponse:
    """One batch; asked by HTMX, the part of it that changes."""
    template = "batches/progress.html" if request.htmx else "batches/page.html"
    return show(request, template, batch=batch_of(request.place.tenant, pk))


@require_POST
@tenant_page(Role.DEVELOPER)
def cancel(request: TenantRequest, pk: UUID) -> HttpResponse:
    """End it; what is answered by then stays."""
    batch = batch_of(request.place.tenant, pk)
    act(request, lambda: batch_cancel(batch=batch, actor=request.user), said="The batch is cancelled.")
    return go(request, "batch", pk)


@require_POST
@tenant_page(Role.DEVELOPER)
def delete(request: TenantRequest, pk: UUID) -> HttpResponse:
    """Forget it, with its files; refused before it has ended."""
    batch = batch_of(request.place.tenant, pk)
    said = f"The batch {batch.filename} is deleted."
    refused = act(request, lambda: batch_delete(batch=batch, actor=request.user), said=said)
    return go(request, "batch", pk) if refused else go(request, "batches")


@require_GET
@tenant_page()
def results(request: TenantRequest, pk: UUID) -> FileResponse:
    """The answers."""
    return _saved(batch_of(request.place.tenant, pk), "results")


@require_GET
@tenant_page()
def errors(request: TenantRequest, pk: UUID) -> FileResponse:
    """The lines that have no answer, and why."""
    return _saved(batch_of(request.place.tenant, pk), "errors")


def _saved(batch: Batch, kind: str) -> FileResponse:
    stream, name = batch_file_opened(batch, kind)
    return Saved(stream, as_attachment=True, filename=name, content_type="application/jsonl")


def _send(request: TenantRequest, form: BatchForm) -> Batch:
    sent = form.cleaned_data["file"]
    return batch_send(
        tenant=request.place.tenant,
        model=form.cleaned_data["model"],
        filename=sent.name,
        stream=sent,
        actor=request.user,
    )
