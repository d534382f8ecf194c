"""How well a root reads an upload: to be asked before anything is built from it."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.models import Tenant
from tenants.datasets.formats.tokenization import LongTextPolicy
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import corpus_of, dataset_of
from versiontree.jobs.api.jobs import OwnerView, PlatformView, validated_query
from versiontree.tree.models import Coverage
from versiontree.tree.selectors.coverage import coverage_request, coverages_of
from versiontree.tree.selectors.versions import corpus_usable_by
from versiontree.tree.tokenizer_fit import corpus_fit, dataset_fit, root_version_by_name


class FitQuerySerializer(serializers.Serializer[Any]):
    """The name of the root that shall read it."""

    root = serializers.CharField()  # type: ignore[assignment]


class RowPlaceSerializer(serializers.Serializer[Any]):
    """Where a row stands in what is stored, counted from 1; a corpus has no split."""

    row = serializers.IntegerField()
    split = serializers.CharField(allow_null=True)


class RowsFoundSerializer(serializers.Serializer[Any]):
    """How many of the rows that were read, and where the first ten stand."""

    rows = serializers.IntegerField()
    first = RowPlaceSerializer(many=True)


class FitSerializer(serializers.Serializer[Any]):
    """What the root's tokenizer makes of rows that are drawn evenly from all there are."""

    rows = serializers.IntegerField(source="total_rows", help_text="All rows.")
    rows_read = serializers.IntegerField(source="rows", help_text="So many of them were read.")
    tokens = serializers.IntegerField()
    tokens_per_word = serializers.FloatField()
    byte_level = serializers.BooleanField(
        help_text="The vocabulary knows every byte, so nothing is unknown: see tokens_per_word."
    )
    unknown_share = serializers.FloatField(help_text="Of the tokens, 0 to 1.")
    unknown = RowsFoundSerializer(help_text="Rows that the vocabulary hardly knows.")
    max_tokens = serializers.IntegerField(help_text="The longest input that the root reads.")
    longest = serializers.IntegerField(help_text="Tokens of the longest row read.")
    long_share = serializers.FloatField(help_text="Of the rows read, 0 to 1: longer than max_tokens.")
    long = RowsFoundSerializer()
    too_long = serializers.ChoiceField(
        choices=[kind.value for kind in LongTextPolicy],
        help_text="What becomes of longer rows: cut off, or read whole in pieces or in windows.",
    )
    warnings = serializers.ListField(child=serializers.CharField())


_FIT = extend_schema(parameters=[FitQuerySerializer], responses=FitSerializer)


class _CorpusFit(GenericAPIView[Corpus]):
    serializer_class = FitSerializer
    queryset = Corpus.unscoped.none()
    owner: Tenant | None

    @_FIT
    def get(self, request: Request, corpus_id: int, **_: Any) -> Response:
        corpus = corpus_usable_by(self.owner, corpus_id)
        root = root_version_by_name(validated_query(FitQuerySerializer, request)["root"])
        return Response(FitSerializer(corpus_fit(root, corpus)).data)


class CorpusFitView(_CorpusFit, OwnerView):
    """How well a root reads a corpus of the tenant's or the platform's."""


class PlatformCorpusFitView(_CorpusFit, PlatformView):
    """How well a root reads a corpus of the platform's."""

    permissions = {"GET": ("datasets.view_corpus",)}


class DatasetFitView(OwnerView):
    """How well a root reads a dataset."""

    serializer_class = FitSerializer
    queryset = Dataset.unscoped.none()

    @_FIT
    def get(self, request: Request, dataset_id: int, **_: Any) -> Response:
        dataset = dataset_of(self.tenant, dataset_id)
        root = root_version_by_name(validated_query(FitQuerySerializer, request)["root"])
        return Response(FitSerializer(dataset_fit(root, dataset)).data)


class MeasuredSerializer(serializers.ModelSerializer[Coverage]):
    """Fragments of the upload, drawn evenly, by what the version's tables have for them: the whole fragment,
    a part, or one token. ``error_message`` says why that could not be found out."""

    version = serializers.IntegerField(source="version_id", read_only=True)
    name = serializers.CharField(source="version.__str__", read_only=True)

    class Meta:
        model = Coverage
        fields = (
            "version",
            "name",
            "fragments",
            "trigrams",
            "bigrams",
            "unigrams",
            "error_message",
            "measured_at",
        )
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
            coverage_request(upload)
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
