"""List the tree, its roots and single versions; register roots."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body, validated_query
from tenants.base.api.object_view import ObjectView
from tenants.base.api.pagination import LinkHeaderPagination
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.tree.api.serializers import (
    NodeSerializer,
    RootRegisterSerializer,
    RootSerializer,
    TreeQuerySerializer,
    VersionSerializer,
)
from versiontree.tree.models import Root, Version
from versiontree.tree.selectors.versions import (
    corpus_usable_by,
    roots_all,
    tree_for,
    version_visible_to,
    versions_visible_to,
)
from versiontree.tree.services.roots import root_register


class TreePages(LinkHeaderPagination):
    """Pages of 100: a node has many fields."""

    page_size = max_page_size = 100


class TreeView(OwnerView):
    """List every visible version, parents first.

    A page has at most 100. The header ``Link`` has the addresses of the previous and next page; ``after``
    starts behind the version with that id.
    """

    serializer_class = NodeSerializer
    pagination_class = TreePages
    queryset = Version.unscoped.none()
    ordering = ("pk",)

    @extend_schema(parameters=[TreeQuerySerializer], responses=NodeSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        after = validated_query(TreeQuerySerializer, request)["after"]
        page = self.paginate_queryset(versions_visible_to(self.owner).filter(pk__gt=after))
        nodes = tree_for(self.owner, among=page)
        return self.get_paginated_response(NodeSerializer(nodes, many=True).data)


class RootsView(OwnerView):
    """List the roots, which every tenant sees."""

    serializer_class = RootSerializer
    ordering = ("name",)
    queryset = Root.objects.none()

    @extend_schema(responses=RootSerializer(many=True))
    def get(self, request: Request, **_: Any) -> Response:
        page = self.paginate_queryset(roots_all())
        return self.get_paginated_response(RootSerializer(page, many=True).data)


class VersionView(ObjectView, OwnerView):
    """Get a version by its id."""

    serializer_class = VersionSerializer
    queryset = Version.unscoped.none()

    def find_object(self, *, version_id: int, **_: Any) -> Version:
        return version_visible_to(self.owner, version_id)


class PlatformRootsView(PlatformView):
    """The platform's roots."""

    permissions = {"GET": ("tree.view_root",), "POST": ("tree.add_root",)}
    serializer_class = RootSerializer
    ordering = ("name",)
    queryset = Root.objects.none()

    @extend_schema(responses=RootSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the roots, with their state."""
        page = self.paginate_queryset(roots_all())
        return self.get_paginated_response(RootSerializer(page, many=True).data)

    @extend_schema(request=RootRegisterSerializer, responses={201: VersionSerializer})
    def post(self, request: Request) -> Response:
        """Register a root from a checkpoint."""
        body = validated_body(RootRegisterSerializer, request)
        if body["corpus"] is not None:
            body["corpus"] = corpus_usable_by(None, body["corpus"])
        version = root_register(**body, actor=request_actor(request))
        return Response(VersionSerializer(version).data, status=status.HTTP_201_CREATED)
