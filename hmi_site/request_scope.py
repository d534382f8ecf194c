"""In whose scope a request is answered (see ``tenants.base.scope``)."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from tenants.base.scope import enter_platform, nobodys_scope

ADMINISTRATION = "admin"


class RequestScope:
    """Outermost. Each request begins in nobody's scope; who finds out whose it is enters that one: pages of
    a tenant, the API and, for the administration, this."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with nobodys_scope():
            return self.get_response(request)

    def process_view(self, request: HttpRequest, *_: Any) -> None:
        """The administration is for staff, who see all; who may do what there, it asks itself."""
        match, user = request.resolver_match, request.user
        if match and ADMINISTRATION in match.app_names and user.is_active and user.is_staff:
            enter_platform()
