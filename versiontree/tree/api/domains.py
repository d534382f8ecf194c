"""List, show, create, update and compact domains."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.models import Tenant
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body
from tenants.base.api.object_view import ObjectView
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.tree.api.serializers import (
    DomainCreateSerializer,
    DomainSerializer,
    DomainUpdateSerializer,
    VersionSerializer,
)
from versiontree.tree.models import Domain, Version
from versiontree.tree.selectors.versions import (
    corpus_usable_by,
    domain_of,
    domain_visible_to,
    domains_visible_to,
    version_visible_to,
    versions_of,
)
from versiontree.tree.services.compaction import domain_compact
from versiontree.tree.services.domains import domain_create, domain_update


class _Domains(GenericAPIView[Domain]):
    serializer_class = DomainSerializer
    ordering: tuple[str, ...] = ("name", "pk")
    queryset = Domain.unscoped.none()
    owner: Tenant | None

    @extend_schema(responses=DomainSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        """List the visible domains."""
        page = self.paginate_queryset(domains_visible_to(self.owner))
        return self.get_paginated_response(DomainSerializer(page, many=True).data)

    @extend_schema(request=DomainCreateSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, **_: Any) -> Response:
        """Create a domain from a corpus."""
        body = validated_body(DomainCreateSerializer, request)
        body["parent"] = version_visible_to(self.owner, body["parent"], param="parent")
        body["corpus"] = corpus_usable_by(self.owner, body["corpus"])
        version = domain_create(tenant=self.owner, **body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class _DomainVersions(GenericAPIView[Version]):
    serializer_class = VersionSerializer
    ordering: tuple[str, ...] = ("-number",)
    queryset = Version.unscoped.none()
    owner: Tenant | None

    @extend_schema(responses=VersionSerializer(many=True))
    def get(self, request: Request, domain_id: int, **_: Any) -> Response:
        """List the versions of a domain, newest first."""
        versions = versions_of(domain_visible_to(self.owner, domain_id)).prefetch_related("jobs")
        page = self.paginate_queryset(versions)
        return self.get_paginated_response(VersionSerializer(page, many=True).data)

    @extend_schema(request=DomainUpdateSerializer, responses={201: VersionSerializer})
    def post(self, request: Request, domain_id: int, **_: Any) -> Response:
        """Update a domain: create its next version from a corpus."""
        body = validated_body(DomainUpdateSerializer, request)
        domain = domain_of(self.owner, domain_id)
        body["corpus"] = corpus_usable_by(self.owner, body["corpus"])
        version = domain_update(domain=domain, **body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class _DomainCompact(GenericAPIView[Version]):
    queryset = Version.unscoped.none()
    owner: Tenant | None

    @extend_schema(request=None, responses={201: VersionSerializer})
    def post(self, request: Request, domain_id: int, **_: Any) -> Response:
        version = domain_compact(domain=domain_of(self.owner, domain_id), actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)


class DomainsView(_Domains, OwnerView):
    """The domains that a tenant sees."""


class DomainVersionsView(_DomainVersions, OwnerView):
    """The versions of a domain that a tenant sees."""


class DomainView(ObjectView, OwnerView):
    """Get a domain."""

    serializer_class = DomainSerializer
    queryset = Domain.unscoped.none()

    def find_object(self, *, domain_id: int, **_: Any) -> Domain:
        return domain_visible_to(self.owner, domain_id)


class DomainCompactView(_DomainCompact, OwnerView):
    """Compact a domain: create a version with one table of all that the newest version reads."""


class PlatformDomainCompactView(_DomainCompact, PlatformView):
    """Compact a domain of the platform."""

    permissions = {"POST": ("tree.change_domain",)}


class PlatformDomainsView(_Domains, PlatformView):
    """The platform's domains."""

    permissions = {"GET": ("tree.view_domain",), "POST": ("tree.add_domain",)}


class PlatformDomainVersionsView(_DomainVersions, PlatformView):
    """The versions of a domain of the platform."""

    permissions = {"GET": ("tree.view_domain",), "POST": ("tree.change_domain",)}
