"""The API keys of a tenant."""

from django.http import HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from frontend.access import TenantRequest, tenant_page
from frontend.forms.keys import KeyForm
from frontend.pages import go, show
from frontend.presenters.keys import key_rows
from frontend.refusals import attempt
from tenants.models import Role
from tenants.selectors import api_key_of, api_keys_of
from tenants.services.api_keys import api_key_create, api_key_revoke


@require_GET
@tenant_page(Role.DEVELOPER)
def index(request: TenantRequest) -> HttpResponse:
    """The keys and a form for a new one."""
    return _page(request, KeyForm())


@require_POST
@never_cache
@tenant_page(Role.OWNER)
def create(request: TenantRequest) -> HttpResponse:
    """Create a key; this one answer shows its plaintext, and nothing ever does again."""
    form = KeyForm(request.POST)
    made = attempt(form, lambda: _create(request, form)) if form.is_valid() else None
    if made is None:
        return _page(request, form)
    return _page(request, KeyForm(), plaintext=made)


@require_POST
@tenant_page(Role.OWNER)
def revoke(request: TenantRequest, prefix: str) -> HttpResponse:
    """Make a key useless for ever."""
    api_key_revoke(api_key=api_key_of(request.place.tenant, prefix), actor=request.user)
    return go(request, "keys", said="The key is revoked.")


def _create(request: TenantRequest, form: KeyForm) -> str:
    _, plaintext = api_key_create(
        tenant=request.place.tenant,
        name=form.cleaned_data["name"],
        scopes=form.cleaned_data["scopes"],
        created_by=request.user,
        expires_at=form.expires_at(),
    )
    return plaintext


def _page(request: TenantRequest, form: KeyForm, plaintext: str = "") -> HttpResponse:
    keys = key_rows(api_keys_of(request.place.tenant))
    return show(request, "keys/index.html", keys=keys, form=form, plaintext=plaintext)
