"""What all views that ask a model have in common: who may, how often, and under which name."""

from typing import Any

from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request
from rest_framework.views import APIView
from structlog.contextvars import get_contextvars

from inference.api.callers import IsIdentified, enter_asked_tenant
from inference.api.infer import infer
from inference.api.parsers import InferBodyParser
from inference.api.prepared_request import prepare_request
from inference.api.rates.headers import tell
from inference.api.rates.limits import limits_of
from inference.api.rates.throttles import InferRate, key_of
from inference.api.validation import InferCall, tenant_in
from tenants.accounts.authentication import CachedApiKeyAuthentication
from tenants.accounts.models import Tenant
from tenants.base.upload_concurrency import INFER_BODY_LIMIT


class InferAPIView(APIView):
    """``request_id`` is the name that the log has, too, and by which the request can be cancelled."""

    body_limit_setting = INFER_BODY_LIMIT
    authentication_classes = (CachedApiKeyAuthentication, SessionAuthentication)
    parser_classes: Any = (InferBodyParser,)
    permission_classes = (IsIdentified,)
    throttle_classes = (InferRate,)
    request_id: str

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        """Every call has an id, those that are refused too."""
        self.request_id = get_contextvars().get("request_id", "")  # none while the schema is made
        return super().initialize_request(request, *args, **kwargs)

    def enter_tenant_of(self, request: Request, reference: str) -> Tenant:
        """The tenant whose model is asked for, in whose scope the rest of the request is."""
        tenant = enter_asked_tenant(request, tenant_in(reference))
        if key_of(request) is None:  # a key's were told when it was known
            tell(request._request, limits_of(tenant, None).tokens)
        return tenant

    def ask(
        self, request: Request, call: InferCall, *, tenant: Tenant, embed: bool = False
    ) -> dict[str, Any]:
        """The answer to the call, for whoever sent the request."""
        key = key_of(request)
        prepared = prepare_request(call, tenant=tenant, key=key, request_id=self.request_id, embed=embed)
        return infer(prepared, environ=request.META)
