"""List, create, update and delete models, their versions and aliases."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import SearchQuerySerializer, validated_body, validated_query
from tenants.base.api.object_view import ObjectView
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.jobs.api.jobs import OwnerView
from versiontree.tree.api.serializers import (
    AliasMoveSerializer,
    AliasPutSerializer,
    AliasSerializer,
    CanaryPutSerializer,
    HplmCreateSerializer,
    HplmPatchSerializer,
    HplmSerializer,
    HplmUpdateSerializer,
    RollbackRequestSerializer,
    RollbackSerializer,
    VersionPatchSerializer,
    VersionSerializer,
)
from versiontree.tree.models import Alias, AliasMove, Hplm, Version
from versiontree.tree.selectors.recommended_root import parent_and_dataset
from versiontree.tree.selectors.versions import (
    alias_moves_of,
    alias_of,
    aliases_of,
    hplm_of,
    hplm_version,
    hplms_of,
    versions_of,
)
from versiontree.tree.services.aliases import alias_move, alias_remove, alias_roll_back
from versiontree.tree.services.canaries import canary_end, canary_promote, canary_start
from versiontree.tree.services.hplms import (
    hplm_create,
    hplm_delete,
    hplm_rename,
    hplm_set_description,
    hplm_update,
    version_set_policy,
)
from versiontree.tree.services.licenses import hplm_set_license


class HplmsView(OwnerView):
    """The tenant's models."""

    serializer_class = HplmSerializer
    queryset = Hplm.unscoped.none()
    ordering = ("name",)

    @extend_schema(parameters=[SearchQuerySerializer], responses=HplmSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the tenant's models, by name."""
        words = validated_query(SearchQuerySerializer, request)["words"]
        page = self.paginate_queryset(hplms_of(self.tenant, words=words))
        return self.get_paginated_response(HplmSerializer(page, many=True).data)

    @extend_schema(request=HplmCreateSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Create a model from a dataset."""
        body = validated_body(HplmCreateSerializer, request)
        chosen = parent_and_dataset(self.tenant, body["parent"], body["dataset"])
        body["parent"], body["dataset"] = chosen
        version = hplm_create(tenant=self.tenant, **body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class HplmView(ObjectView, OwnerView):
    """Get a model by its name."""

    serializer_class = HplmSerializer
    queryset = Hplm.unscoped.none()

    def find_object(self, *, name: str, **_: Any) -> Hplm:
        return hplm_of(self.tenant, name)

    @extend_schema(request=HplmPatchSerializer, responses=HplmSerializer)
    def patch(self, request: Request, **path: Any) -> Response:
        """Change the name, description or license of a model."""
        body = validated_body(HplmPatchSerializer, request)
        found, actor = self.find_object(**path), request_actor(request)
        with transaction.atomic():
            if "description" in body:
                hplm_set_description(hplm=found, description=body["description"], actor=actor)
            if "license" in body:
                hplm_set_license(hplm=found, license=body["license"], actor=actor)
            if "name" in body:
                hplm_rename(hplm=found, name=body["name"], actor=actor)
        return Response(HplmSerializer(found).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **path: Any) -> Response:
        """Delete a model with all its versions."""
        hplm_delete(hplm=self.find_object(**path), actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class HplmVersionsView(OwnerView):
    """The versions of a model."""

    serializer_class = VersionSerializer
    ordering = ("-number",)
    queryset = Version.unscoped.none()

    @extend_schema(responses=VersionSerializer(many=True))
    def get(self, request: Request, name: str, **_: Any) -> Response:
        """List the versions of a model, newest first."""
        page = self.paginate_queryset(versions_of(hplm_of(self.tenant, name)).prefetch_related("jobs"))
        return self.get_paginated_response(VersionSerializer(page, many=True).data)

    @extend_schema(request=HplmUpdateSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, name: str, **_: Any) -> Response:
        """Update a model: create its next version from a dataset."""
        body = validated_body(HplmUpdateSerializer, request)
        body["dataset"] = dataset_of(self.tenant, body["dataset"])
        found = hplm_of(self.tenant, name)
        version = hplm_update(hplm=found, **body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class HplmVersionView(ObjectView, OwnerView):
    """Get a version of a model by its number."""

    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()

    def find_object(self, *, name: str, number: int, **_: Any) -> Version:
        return hplm_version(hplm_of(self.tenant, name), number)

    @extend_schema(request=VersionPatchSerializer, responses=VersionSerializer)
    def patch(self, request: Request, **path: Any) -> Response:
        """Set the policy of a version."""
        policy = validated_body(VersionPatchSerializer, request)["policy"]
        found = self.find_object(**path)
        changed = version_set_policy(version=found, policy=policy or "", actor=request_actor(request))
        return Response(VersionSerializer(changed).data)


class AliasesView(OwnerView):
    """List the aliases of a model."""

    serializer_class = AliasSerializer
    ordering = ("name",)
    queryset = Alias.unscoped.none()

    @extend_schema(responses=AliasSerializer(many=True))
    def get(self, request: Request, name: str, **_: Any) -> Response:
        page = self.paginate_queryset(aliases_of(hplm_of(self.tenant, name)))
        return self.get_paginated_response(AliasSerializer(page, many=True).data)


class AliasView(ObjectView, OwnerView):
    """Get an alias of a model."""

    serializer_class = AliasSerializer
    queryset = Alias.unscoped.none()

    def find_object(self, *, name: str, alias: str, **_: Any) -> Alias:
        return alias_of(hplm_of(self.tenant, name), alias)

    @extend_schema(request=AliasPutSerializer, responses=AliasSerializer)
    def put(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        """Create an alias, or move it to another version."""
        body = validated_body(AliasPutSerializer, request)
        found = hplm_of(self.tenant, name)
        version = hplm_version(found, body["version"])
        actor = request_actor(request)
        moved = alias_move(hplm=found, name=alias, version=version, actor=actor, reason=body["reason"])
        return Response(AliasSerializer(moved).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        """Delete an alias."""
        alias_remove(hplm=hplm_of(self.tenant, name), name=alias, actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class AliasRollbackView(OwnerView):
    """Point an alias at the version before its current one was promoted."""

    serializer_class = RollbackSerializer
    queryset = Alias.unscoped.none()

    @extend_schema(request=RollbackRequestSerializer, responses=RollbackSerializer)
    def post(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        body = validated_body(RollbackRequestSerializer, request)
        found, actor = hplm_of(self.tenant, name), request_actor(request)
        rolled = alias_roll_back(hplm=found, name=alias, **body, actor=actor)
        return Response(RollbackSerializer(rolled).data)


class CanaryView(OwnerView):
    """The canary of an alias."""

    serializer_class = AliasSerializer
    queryset = Alias.unscoped.none()

    @extend_schema(request=CanaryPutSerializer, responses=AliasSerializer)
    def put(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        """Start a canary, or change its share of the requests."""
        body = validated_body(CanaryPutSerializer, request)
        found = hplm_of(self.tenant, name)
        version, actor = hplm_version(found, body["version"]), request_actor(request)
        started = canary_start(hplm=found, name=alias, version=version, percent=body["percent"], actor=actor)
        return Response(AliasSerializer(started).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        """End a canary."""
        canary_end(hplm=hplm_of(self.tenant, name), name=alias, actor=request_actor(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class CanaryPromoteView(OwnerView):
    """Point an alias at its canary, and end the canary."""

    serializer_class = AliasSerializer
    queryset = Alias.unscoped.none()

    @extend_schema(request=None, responses=AliasSerializer)
    def post(self, request: Request, name: str, alias: str, **_: Any) -> Response:
        moved = canary_promote(hplm=hplm_of(self.tenant, name), name=alias, actor=request_actor(request))
        return Response(AliasSerializer(moved).data)


class AliasMovesView(OwnerView):
    """List the moves of a model's aliases, newest first."""

    serializer_class = AliasMoveSerializer
    queryset = AliasMove.unscoped.none()

    @extend_schema(responses=AliasMoveSerializer(many=True))
    def get(self, request: Request, name: str, **_: Any) -> Response:
        page = self.paginate_queryset(alias_moves_of(hplm_of(self.tenant, name)))
        return self.get_paginated_response(AliasMoveSerializer(page, many=True).data)
