"""`/v1/models`: what can be asked, and what can be fine-tuned."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inference.openai.errors import OpenAiView, errors
from inference.openai.lists import as_list, list_of, unix
from inference.openai.serializers import DeletedSerializer
from tenants.accounts.models import ApiKey, Scope
from tenants.accounts.permissions import request_actor, require_scope
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from versiontree.tree.models import Domain, Hplm, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.bases import Base, base_by_name, base_name, base_version, bases_visible_to
from versiontree.tree.selectors.fine_tunings import fine_tunings_running
from versiontree.tree.services.hplms import hplm_delete

PLATFORM = "hmi"
EXAMPLE = {
    "id": "acme/tickets",
    "object": "model",
    "created": 1767225600,
    "owned_by": "acme",
    "hmi": {"kind": "model", "task": "classification"},
}


class AboutModelSerializer(serializers.Serializer[Any]):
    """What the product says of a model besides."""

    kind = serializers.ChoiceField(["root", "domain", "model"])
    task = serializers.CharField(required=False)
    version = serializers.IntegerField(required=False)
    state = serializers.CharField(required=False)
    digest = serializers.CharField(required=False)


class OpenAiModelSerializer(serializers.Serializer[Any]):
    """A model."""

    id = serializers.CharField()
    object = serializers.CharField(help_text="`model`.")
    created = serializers.IntegerField()
    owned_by = serializers.CharField()
    hmi = AboutModelSerializer()


class ModelsAccess(OpenAiView):
    """Keys of either scope may look."""

    serializer_class = OpenAiModelSerializer
    queryset = Version.unscoped.none()

    @property
    def scope(self) -> str:  # type: ignore[override]
        """That of the two which the key has."""
        key = self.request.auth
        return Scope.INFER if isinstance(key, ApiKey) and not key.allows(Scope.MANAGE) else Scope.MANAGE


class OpenAiModelsView(ModelsAccess):
    """The models that the tenant sees."""

    @extend_schema(
        operation_id="openai_models_list",
        responses={200: list_of(OpenAiModelSerializer, "OpenAiModels"), **errors()},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List models, and the domains and roots that they can be fine-tuned from."""
        return Response(as_list([_shown(base) for base in bases_visible_to(self.tenant)]))


class OpenAiModelView(ModelsAccess):
    """One model."""

    @extend_schema(
        operation_id="openai_models_retrieve",
        responses={200: OpenAiModelSerializer, **errors()},
        examples=[OpenApiExample("A model", EXAMPLE, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, model: str, **_: Any) -> Response:
        """About a model, or about the version of it that is named."""
        base, number = base_by_name(self.tenant, model)
        version = _version(base, number)
        about = {"version": version.number, "state": version.state, "digest": version.digest}
        shown = _shown(base)
        if number is not None:
            shown |= {"id": f"{shown['id']}:{number}", "created": unix(version.created_at)}
        return Response(shown | {"hmi": shown["hmi"] | about})

    @extend_schema(
        operation_id="openai_models_delete", responses={200: DeletedSerializer, **errors(400, 409)}
    )
    def delete(self, request: Request, model: str, **_: Any) -> Response:
        """Delete a model with all its versions."""
        if isinstance(request.auth, ApiKey):
            require_scope(request.auth, Scope.MANAGE)
        base, number = base_by_name(self.tenant, model)
        if not isinstance(base, Hplm):
            raise HmiError(ErrorCode.FORBIDDEN, "Only models are deleted here.", param="model")
        if number is not None:
            message = f"A model is deleted whole: {base_name(base)}."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param="model")
        if at_work := fine_tunings_running(base):
            message = f"{base_name(base)} is still being fine-tuned; cancel that first, or wait"
            raise has_dependents(message, at_work, param="model")
        hplm_delete(hplm=base, actor=request_actor(request))
        return Response({"id": base_name(base), "object": "model", "deleted": True})


def _version(base: Base, number: int | None) -> Version:
    """Of a model without a number that which answers."""
    if isinstance(base, Hplm) and number is None:
        for alias in base.aliases.all():
            if alias.name == DEFAULT_ALIAS:
                return alias.version
    return base_version(base, number)


def _shown(base: Base) -> dict[str, Any]:
    owner = base.tenant.slug if isinstance(base, Hplm | Domain) and base.tenant else PLATFORM
    return {
        "id": base_name(base),
        "object": "model",
        "created": unix(base.created_at),
        "owned_by": owner,
        "hmi": _about(base),
    }


def _about(base: Base) -> Mapping[str, Any]:
    kind = str(base._meta.verbose_name)
    return {"kind": kind, "task": base.task} if isinstance(base, Hplm) else {"kind": kind}
