"""How API keys and what is asked stand in the OpenAPI description."""

from typing import Any

from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerExtension
from drf_spectacular.utils import Direction

from tenants.accounts.authentication import ApiKeyAuthentication

# Its subclasses read the same keys.
set_override(ApiKeyAuthentication, "suppress_collision_warning", True)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    """``Authorization: Bearer <key>``."""

    target_class = "tenants.accounts.authentication.ApiKeyAuthentication"
    name = "ApiKey"
    match_subclasses = True

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """The scheme; ``X-Api-Key`` works as well."""
        return {"type": "http", "scheme": "bearer", "description": "A tenant's API key, also as `X-Api-Key`."}


class AskedShape(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # registers itself
    """Fields that are not named are refused."""

    target_class = "tenants.base.api.strict_input.StrictInput"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Direction) -> dict[str, Any]:
        """The fields, and that there are no others."""
        shape = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        return {**shape, "additionalProperties": False}
