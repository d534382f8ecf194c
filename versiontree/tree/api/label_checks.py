"""The rows of a dataset whose label looks wrong."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.datasets.models import Dataset
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.jobs.api.jobs import OwnerView
from versiontree.tree.selectors.label_checks import suspects_of, suspects_version


class SuspectSerializer(serializers.Serializer[Any]):
    """A row of train, counted from 0, its label and the suggested one; for tagging, of a token."""

    row = serializers.IntegerField()
    token = serializers.IntegerField(allow_null=True)
    label = serializers.CharField()  # type: ignore[assignment]
    suggested = serializers.CharField()
    confidence = serializers.FloatField(help_text="Of the suggested label, 0 to 1.")
    example = serializers.JSONField(help_text="The stored row.")


class SuspectsSerializer(serializers.Serializer[Any]):
    """The suspects, the surest first, and the quick version that found them; null without one."""

    version = serializers.IntegerField(allow_null=True)
    suspects = SuspectSerializer(many=True)


class DatasetSuspectsView(OwnerView):
    """List the rows of a dataset whose label looks wrong to the quick version that was trained on it."""

    serializer_class = SuspectsSerializer
    queryset = Dataset.unscoped.none()

    @extend_schema(responses=SuspectsSerializer)
    def get(self, request: Request, dataset_id: int, **_: Any) -> Response:
        dataset = dataset_of(self.tenant, dataset_id)
        version = suspects_version(self.tenant, dataset)
        suspects = suspects_of(version, dataset) if version else []
        data = {"version": version and version.pk, "suspects": suspects}
        return Response(SuspectsSerializer(data).data)
