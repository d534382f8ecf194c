"""Estimates of time and storage. They take the body of the request that creates, and create nothing."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.models import Tenant
from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import validated_body
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.tree.api.serializers import (
    DomainCreateSerializer,
    DomainUpdateSerializer,
    HplmCreateSerializer,
)
from versiontree.tree.models import Version
from versiontree.tree.selectors.estimates import domain_estimate, hplm_estimate
from versiontree.tree.selectors.recommended_root import parent_and_dataset
from versiontree.tree.selectors.versions import corpus_usable_by, domain_of, version_visible_to
from versiontree.tree.services.domains import domain_create, domain_update
from versiontree.tree.services.dry_run import dry_run
from versiontree.tree.services.hplms import hplm_create


class SecondsSerializer(serializers.Serializer[Any]):
    """A range of seconds."""

    low = serializers.FloatField()
    likely = serializers.FloatField()
    high = serializers.FloatField()


class QueueSerializer(serializers.Serializer[Any]):
    """The position in the queue, and the wait until the first job starts."""

    position = serializers.IntegerField(help_text="1 is next.")
    wait_s = serializers.FloatField(allow_null=True, help_text="Seconds; null if unknown.")


class EstimateSerializer(serializers.Serializer[Any]):
    """The estimate of a model or a domain."""

    seconds = SecondsSerializer(
        allow_null=True,
        help_text="Of training and evaluation; null without past jobs below the root.",
    )
    past_jobs = serializers.IntegerField(
        help_text="How many past trainings the estimate is based on. Of fewer than three those of other "
        "tenants are left out."
    )
    storage_bytes = serializers.IntegerField(
        allow_null=True, help_text="The median of past models of the root; null if there are none."
    )
    queue = QueueSerializer()
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Those that the version's config would have."
    )


@extend_schema_serializer(component_name="ModelEstimate")
class HplmEstimateSerializer(EstimateSerializer):
    """The estimate of a model."""

    quick_seconds = SecondsSerializer(
        allow_null=True,
        help_text="Of its quick version; null without one, or without past ones below the root.",
    )


class DomainEstimateSerializer(EstimateSerializer):
    """The estimate of a domain or of its update."""

    seconds = SecondsSerializer(
        allow_null=True,
        help_text="Of further pretraining and of building the table; null without past jobs below the root.",
    )
    storage_bytes = serializers.IntegerField(
        allow_null=True, help_text="The median of past domains of the root; null if there are none."
    )


class EstimateView(OwnerView):
    """Estimate the time and storage of a new model. Fails as creating it would."""

    serializer_class = HplmEstimateSerializer
    takes_idempotency_key = False
    queryset = Version.unscoped.none()

    @extend_schema(request=HplmCreateSerializer, responses=HplmEstimateSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        body = validated_body(HplmCreateSerializer, request)
        del body["auto_promote"]
        chosen = parent_and_dataset(self.tenant, body["parent"], body["dataset"])
        body["parent"], body["dataset"] = chosen
        actor = request_actor(request)
        version = dry_run(lambda: hplm_create(tenant=self.tenant, **body, actor=actor))
        data = asdict(hplm_estimate(body["parent"], viewer=self.tenant))
        data["warnings"] = version.config.get("warnings", [])
        if version.number == 1:  # it would have no quick version before it
            data["quick_seconds"] = None
        return Response(HplmEstimateSerializer(data).data)


class _DomainEstimate(GenericAPIView[Version]):
    serializer_class = DomainEstimateSerializer
    takes_idempotency_key = False
    queryset = Version.unscoped.none()
    owner: Tenant | None

    def estimate(self, create: Callable[[], Version]) -> Response:
        """The estimate of the version that ``create`` makes in a dry run."""
        version = dry_run(create)
        assert version.parent is not None  # only a root's version has none
        config = version.config
        estimate = domain_estimate(version.parent, settings=config["settings"], viewer=self.owner)
        data = {**asdict(estimate), "warnings": config.get("warnings", [])}
        return Response(DomainEstimateSerializer(data).data)


class _NewDomainEstimate(_DomainEstimate):
    @extend_schema(request=DomainCreateSerializer, responses=DomainEstimateSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        body, actor = validated_body(DomainCreateSerializer, request), request_actor(request)
        body["parent"] = version_visible_to(self.owner, body["parent"], param="parent")
        body["corpus"] = corpus_usable_by(self.owner, body["corpus"])
        return self.estimate(lambda: domain_create(tenant=self.owner, **body, actor=actor))


class _DomainUpdateEstimate(_DomainEstimate):
    @extend_schema(request=DomainUpdateSerializer, responses=DomainEstimateSerializer)
    def post(self, request: Request, domain_id: int, **_: Any) -> Response:
        body, actor = validated_body(DomainUpdateSerializer, request), request_actor(request)
        domain = domain_of(self.owner, domain_id)
        body["corpus"] = corpus_usable_by(self.owner, body["corpus"])
        return self.estimate(lambda: domain_update(domain=domain, **body, actor=actor))


class DomainsEstimateView(_NewDomainEstimate, OwnerView):
    """Estimate the time and storage of a new domain. Fails as creating it would."""


class DomainEstimateView(_DomainUpdateEstimate, OwnerView):
    """Estimate the time and storage of a domain's update."""


class PlatformDomainsEstimateView(_NewDomainEstimate, PlatformView):
    """Estimate the time and storage of a new domain of the platform."""

    permissions = {"POST": ("tree.add_domain",)}


class PlatformDomainEstimateView(_DomainUpdateEstimate, PlatformView):
    """Estimate the time and storage of an update of a domain of the platform."""

    permissions = {"POST": ("tree.change_domain",)}
