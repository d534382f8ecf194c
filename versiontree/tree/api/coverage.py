"""How much of an upload the tables of each root and domain hold: where to train on it."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import corpus_of, dataset_of
from versiontree.jobs.api.access import OwnerView
from versiontree.tree.models import Coverage
from versiontree.tree.selectors.coverage import coverage_ask, coverages_of


class MeasuredSerializer(serializers.ModelSerializer[Coverage]):
    """Fragments of the upload, drawn evenly, by what the version's tables have for them: the whole fragment,
    a part, or one token. ``fault`` says why that could not be found out."""

    version = serializers.IntegerField(source="version_id", read_only=True)
    name = serializers.CharField(source="version.__str__", read_only=True)

    class Meta:
        model = Coverage
        fields = ("version", "name", "fragments", "trigrams", "bigrams", "unigrams", "fault", "measured_at")
        read_only_fields = fields


class CoverageSerializer(serializers.Serializer[Any]):
    """What is known; ``waiting`` are versions that a worker measures now: ask again in a moment."""

    measured = MeasuredSerializer(many=True)
    waiting = serializers.ListField(child=serializers.IntegerField())


class _Coverage(OwnerView):
    serializer_class = CoverageSerializer
    queryset = Coverage.unscoped.none()

    def told(self, upload: Corpus | Dataset) -> Response:
        """What is known of it; the rest is asked for."""
        measured, waiting = coverages_of(self.tenant, upload)
        if waiting:
            coverage_ask(upload)
        told = {"measured": measured, "waiting": [version.pk for version in waiting]}
        return Response(CoverageSerializer(told).data)


class CorpusCoverageView(_Coverage):
    """How much of a corpus the tables of each root and domain hold."""

    @extend_schema(responses=CoverageSerializer)
    def get(self, request: Request, corpus_id: int, **_: Any) -> Response:
        return self.told(corpus_of(self.tenant, corpus_id))


class DatasetCoverageView(_Coverage):
    """How much of a dataset the tables of each root and domain hold."""

    @extend_schema(responses=CoverageSerializer)
    def get(self, request: Request, dataset_id: int, **_: Any) -> Response:
        return self.told(dataset_of(self.tenant, dataset_id))
