"""`/v1/models`: what can be called, the tenant's models and base models. Domains can be looked up, too."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from inference.openai.errors import OpenAiView, error_responses
from inference.openai.ids import unix_time
from inference.openai.pagination import list_json, list_schema
from inference.openai.serializers import DeletedSerializer
from tenants.accounts.models import ApiKey, Scope
from tenants.accounts.permissions import request_actor, require_scope
from tenants.base.api.inputs import ChoiceField
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from versiontree.tree.models import Domain, Hplm, Root, Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.selectors.bases import Base, base_by_name, base_name, base_version, bases_visible_to
from versiontree.tree.selectors.callable_roots import base_task, callable_root_versions_for
from versiontree.tree.selectors.fine_tunings import fine_tunings_running
from versiontree.tree.selectors.versions import hplms_of
from versiontree.tree.services.hplms import hplm_delete

PLATFORM = "hmi"
EXAMPLE = {
    "id": "acme/tickets",
    "object": "model",
    "created": 1767225600,
    "owned_by": "acme",
    "hmi": {"kind": "model", "task": "classification"},
}


class ModelDetailsSerializer(serializers.Serializer[Any]):
    """Fields of a model that OpenAI's API does not have."""

    kind = ChoiceField(["root", "domain", "model"])
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
    hmi = ModelDetailsSerializer()


class OpenAiModelsBaseView(OpenAiView):
    """Base of the views of models. Keys of either scope may read."""

    serializer_class = OpenAiModelSerializer
    queryset = Version.unscoped.none()

    @property
    def scope(self) -> str:  # type: ignore[override]
        """The scope that the key has."""
        key = self.request.auth
        return Scope.INFER if isinstance(key, ApiKey) and not key.allows(Scope.MANAGE) else Scope.MANAGE


class OpenAiModelsView(OpenAiModelsBaseView):
    """The models that the tenant can call, its own and the base models."""

    @extend_schema(
        operation_id="openai_models_list",
        responses={200: list_schema(OpenAiModelSerializer, "OpenAiModels"), **error_responses()},
    )
    def get(self, request: Request, **_: Any) -> Response:
        """List what can be called: the tenant's models and the base models. A key that may only manage lists
        what it can fine-tune: models, domains and base models."""
        key = request.auth
        if isinstance(key, ApiKey) and not key.allows(Scope.INFER):
            return Response(list_json([_model_json(base) for base in bases_visible_to(self.tenant)]))
        own = [_model_json(hplm) for hplm in hplms_of(self.tenant).filter(aliases__name=DEFAULT_ALIAS)]
        bases = [
            _model_json(version.root, task=base_task(version))
            for version in callable_root_versions_for(self.tenant)
        ]
        return Response(list_json([*own, *bases]))


class OpenAiModelView(OpenAiModelsBaseView):
    """One model."""

    @extend_schema(
        operation_id="openai_models_retrieve",
        responses={200: OpenAiModelSerializer, **error_responses()},
        examples=[OpenApiExample("A model", EXAMPLE, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, model: str, **_: Any) -> Response:
        """Get a model, or one version of it."""
        base, number = base_by_name(self.tenant, model)
        version = _version(base, number)
        details = {"version": version.number, "state": version.state, "digest": version.digest}
        value = _model_json(base, task=base_task(version) if isinstance(base, Root) else None)
        if number is not None:
            value |= {"id": f"{value['id']}:{number}", "created": unix_time(version.created_at)}
        return Response(value | {"hmi": value["hmi"] | details})

    @extend_schema(
        operation_id="openai_models_delete", responses={200: DeletedSerializer, **error_responses(400, 409)}
    )
    def delete(self, request: Request, model: str, **_: Any) -> Response:
        """Delete a model with all its versions."""
        if isinstance(request.auth, ApiKey):
            require_scope(request.auth, Scope.MANAGE)
        base, number = base_by_name(self.tenant, model)
        if not isinstance(base, Hplm):
            raise HmiError(ErrorCode.FORBIDDEN, "Only models are deleted here.", param="model")
        if number is not None:
            message = f"Versions cannot be deleted alone. Delete the model: {base_name(base)}."
            raise HmiError(ErrorCode.INVALID_FIELD, message, param="model")
        if running := fine_tunings_running(base):
            message = f"{base_name(base)} is still being fine-tuned; cancel that first, or wait"
            raise has_dependents(message, running, param="model")
        hplm_delete(hplm=base, actor=request_actor(request))
        return Response({"id": base_name(base), "object": "model", "deleted": True})


def _version(base: Base, number: int | None) -> Version:
    """The version with this number. Without one, the version of the default alias, or the newest."""
    if isinstance(base, Hplm) and number is None:
        for alias in base.aliases.all():
            if alias.name == DEFAULT_ALIAS:
                return alias.version
    return base_version(base, number)


def _model_json(base: Base, *, task: str | None = None) -> dict[str, Any]:
    """The JSON object of a model, domain or root. ``task``: what a root answers when it is called."""
    owner = base.tenant.slug if isinstance(base, Hplm | Domain) and base.tenant else PLATFORM
    return {
        "id": base_name(base),
        "object": "model",
        "created": unix_time(base.created_at),
        "owned_by": owner,
        "hmi": _details(base, task),
    }


def _details(base: Base, task: str | None) -> Mapping[str, Any]:
    kind, task = str(base._meta.verbose_name), base.task if isinstance(base, Hplm) else task
    return {"kind": kind, "task": task} if task else {"kind": kind}
