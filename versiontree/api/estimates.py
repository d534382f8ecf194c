"""What an hPLM would take: the same body as making one, and nothing made."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.permissions import request_actor
from tenants.selectors import dataset_of
from versiontree.api.access import OwnerView, asked
from versiontree.api.serializers import HplmCreateSerializer
from versiontree.estimates import hplm_estimate
from versiontree.models import Version
from versiontree.selectors import version_visible_to
from versiontree.services.hplms import hplm_rehearse


class SecondsSerializer(serializers.Serializer[Any]):
    """Seconds."""

    low = serializers.FloatField()
    likely = serializers.FloatField()
    high = serializers.FloatField()


class QueueSerializer(serializers.Serializer[Any]):
    """What would be before it."""

    place = serializers.IntegerField(help_text="1 is next.")
    wait_s = serializers.FloatField(allow_null=True, help_text="Seconds; null where nothing tells.")


class EstimateSerializer(serializers.Serializer[Any]):
    """What an hPLM would take."""

    seconds = SecondsSerializer(help_text="Of work: training and measuring.")
    jobs = serializers.IntegerField(help_text="Judged by so many past ones; 0: by a rough model of cost.")
    storage_bytes = serializers.IntegerField(
        allow_null=True, help_text="Of its weights; null where the root's own file cannot be read."
    )
    queue = QueueSerializer()
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What would stand in the version's config."
    )


class EstimateView(OwnerView):
    """How long an hPLM would take, and how much storage; what would be refused is refused."""

    serializer_class = EstimateSerializer
    makes = False
    queryset = Version.unscoped.none()

    @extend_schema(request=HplmCreateSerializer, responses=EstimateSerializer)
    def post(self, request: Request, **_: Any) -> Response:
        body = asked(HplmCreateSerializer, request)
        del body["auto_promote"]
        body["parent"] = version_visible_to(self.tenant, body["parent"], param="parent")
        body["dataset"] = dataset_of(self.tenant, body["dataset"])
        config = hplm_rehearse(tenant=self.tenant, **body, actor=request_actor(request))
        estimate = hplm_estimate(parent=body["parent"], dataset=body["dataset"], settings=config["settings"])
        told = {**asdict(estimate), "warnings": config.get("warnings", [])}
        return Response(EstimateSerializer(told).data)
