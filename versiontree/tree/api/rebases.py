"""Rebase models, and list those that can be."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import StrictSerializer, validated_body
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.tree.api.serializers import RootConvertSerializer, VersionSerializer
from versiontree.tree.models import Hplm, Root, Version
from versiontree.tree.selectors.rebases import Owner, hplms_on, rebase_offers
from versiontree.tree.selectors.versions import (
    corpus_usable_by,
    domain_of,
    domain_visible_to,
    hplm_of,
    hplms_of,
    root_by_name,
)
from versiontree.tree.services.rebases import (
    RefusedRebase,
    hplm_rebase,
    hplms_rebase,
    owner_rebase_request,
)
from versiontree.tree.services.roots import root_convert


class RebaseOfferSerializer(serializers.Serializer[Any]):
    """A model whose domain or root has a newer version. ``problem``: why it cannot be rebased, or empty."""

    model = serializers.CharField(source="hplm.name")
    version = serializers.IntegerField(source="current.number", help_text="Of the alias default.")
    base = serializers.CharField(
        source="stands_on", help_text="What that version stands on, such as biomedicine:1."
    )
    onto = serializers.CharField(help_text="The newest version of that, such as biomedicine:4.")
    problem = serializers.CharField()


class RebaseSerializer(StrictSerializer):
    """``auto_promote``: move ``default`` to the new version if it is not worse."""

    auto_promote = serializers.BooleanField(required=False, default=True)


class RefusedRebaseSerializer(serializers.Serializer[RefusedRebase]):
    """A model that was not rebased, and why."""

    model = serializers.CharField(source="hplm.name")
    code = serializers.CharField(source="error.code")
    message = serializers.CharField(source="error.message")


@extend_schema_serializer(component_name="Rebases")
class RebasesSerializer(serializers.Serializer[Any]):
    """The new versions, and the models that were not rebased."""

    versions = VersionSerializer(many=True)
    refused = RefusedRebaseSerializer(many=True)


class QueuedRebasesSerializer(serializers.Serializer[Any]):
    """How many models a worker will rebase."""

    models = serializers.IntegerField()


class RebaseOffersView(OwnerView):
    """List the models whose domain or root has a newer version, by name."""

    serializer_class = RebaseOfferSerializer
    pagination_class = None  # type: ignore[assignment]  # a short list
    queryset = Hplm.unscoped.none()

    @extend_schema(responses=RebaseOfferSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        return Response(RebaseOfferSerializer(rebase_offers(hplms_of(self.tenant)), many=True).data)


class HplmRebaseView(OwnerView):
    """Rebase a model: create its next version on the newest version of its domain or root."""

    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()

    @extend_schema(request=RebaseSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, name: str, **_: Any) -> Response:
        body = validated_body(RebaseSerializer, request)
        version = hplm_rebase(hplm=hplm_of(self.tenant, name), **body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class _OwnerRebase(OwnerView):
    serializer_class = RebasesSerializer
    queryset = Version.unscoped.none()

    find_owner: Callable[..., Owner]

    @extend_schema(request=None, responses=RebasesSerializer)
    def post(self, request: Request, **path: Any) -> Response:
        hplms = hplms_on(self.find_owner(**path), self.tenant)
        return Response(RebasesSerializer(hplms_rebase(hplms=hplms, actor=request_actor(request))).data)


class DomainRebaseView(_OwnerRebase):
    """Rebase the tenant's models on a domain onto its newest version."""

    def find_owner(self, *, domain_id: int, **_: Any) -> Owner:
        return domain_visible_to(self.owner, domain_id)


class RootRebaseView(_OwnerRebase):
    """Rebase the tenant's models on a root onto its newest version."""

    def find_owner(self, *, name: str, **_: Any) -> Owner:
        return root_by_name(name)


class _PlatformRebase(PlatformView):
    serializer_class = QueuedRebasesSerializer
    queryset = Version.unscoped.none()

    find_owner: Callable[..., Owner]

    @extend_schema(request=None, responses={202: QueuedRebasesSerializer})
    def post(self, request: Request, **path: Any) -> Response:
        models = owner_rebase_request(owner=self.find_owner(**path), actor=request_actor(request))
        return Response({"models": models}, status=status.HTTP_202_ACCEPTED)


class PlatformDomainRebaseView(_PlatformRebase):
    """Rebase the models of all tenants on a domain of the platform, within their quotas. A worker does it."""

    permissions = {"POST": ("tree.change_domain",)}

    def find_owner(self, *, domain_id: int) -> Owner:
        return domain_of(None, domain_id)


class PlatformRootRebaseView(_PlatformRebase):
    """Rebase the models of all tenants on a root, within their quotas. A worker does it."""

    permissions = {"POST": ("tree.change_root",)}

    def find_owner(self, *, name: str) -> Owner:
        return root_by_name(name)


class RootConvertView(PlatformView):
    """Convert a root, again or for the first time: create its next version from the same checkpoint."""

    permissions = {"POST": ("tree.change_root",)}
    serializer_class = VersionSerializer
    queryset = Root.objects.none()

    @extend_schema(request=RootConvertSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, name: str) -> Response:
        body = validated_body(RootConvertSerializer, request)
        corpus = None if body["corpus"] is None else corpus_usable_by(None, body["corpus"])
        version = root_convert(root=root_by_name(name), corpus=corpus, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)
