"""Try an hPLM: the infer request by hand."""

from django.http import HttpResponse
from django.views.decorators.http import require_GET, require_POST
from structlog.contextvars import bind_contextvars, get_contextvars

from frontend.access import TenantRequest, tenant_page
from frontend.forms.trying import TryForm
from frontend.pages import show
from frontend.presenters.answers import Answer, answer_of
from inference.api.infer import infer
from tenants.errors import ErrorCode, HmiError


@require_GET
@tenant_page()
def page(request: TenantRequest) -> HttpResponse:
    """The text to fill in, with the hPLM that a link may have named."""
    form = TryForm(request.place.tenant, initial={"model": request.GET.get("model", "")})
    return show(request, "playground/page.html", form=form)


@require_POST
@tenant_page()
def answer(request: TenantRequest) -> HttpResponse:
    """Ask the hPLM; the answer, or a typed refusal, replaces what stood beside the text."""
    form = TryForm(request.place.tenant, request.POST)
    template = "playground/answer.html" if request.htmx else "playground/page.html"
    try:
        return show(request, template, form=form, answer=_ask(request, form))
    except HmiError as refusal:
        bind_contextvars(code=str(refusal.code))
        return show(request, template, form=form, refusal=refusal)


def _ask(request: TenantRequest, form: TryForm) -> Answer:
    if not form.is_valid():
        raise HmiError(
            ErrorCode.INVALID_FIELD, " ".join(str(errors.as_text()) for errors in form.errors.values())
        )
    reference = form.cleaned_data["model"]
    reply = infer(
        tenant=request.place.tenant,
        reference=reference,
        inputs=[form.given()],
        request_id=get_contextvars()["request_id"],
    )
    return answer_of(form.marked(), reply)
