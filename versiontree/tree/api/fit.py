"""The fit of a root's tokenizer to an upload, and the coverage of an upload by tables."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.accounts.models import Tenant
from tenants.base.api.inputs import ChoiceField, validated_query
from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.selectors.uploads import corpus_of, dataset_of
from versiontree.jobs.api.jobs import OwnerView, PlatformView
from versiontree.tree.models import Coverage
from versiontree.tree.selectors.coverage import coverage_request, coverages_of
from versiontree.tree.selectors.versions import corpus_usable_by
from versiontree.tree.tokenized_rows import LongTextPolicy
from versiontree.tree.tokenizer_fit import corpus_fit, dataset_fit, root_version_by_name


class FitQuerySerializer(serializers.Serializer[Any]):
    """The name of the root."""

    root = serializers.CharField()  # type: ignore[assignment]


class RowLocationSerializer(serializers.Serializer[Any]):
    """A row of the stored file, counted from 1. A corpus has no split."""

    row = serializers.IntegerField()
    split = serializers.CharField(allow_null=True)


class RowsFoundSerializer(serializers.Serializer[Any]):
    """How many of the sampled rows, and the locations of the first ten."""

    rows = serializers.IntegerField()
    first = RowLocationSerializer(many=True)


class FitSerializer(serializers.Serializer[Any]):
    """The fit of the root's tokenizer to a sample of rows."""

    rows = serializers.IntegerField(source="total_rows", help_text="All rows.")
    rows_read = serializers.IntegerField(source="rows", help_text="The size of the sample.")
    tokens = serializers.IntegerField()
    tokens_per_word = serializers.FloatField()
    byte_level = serializers.BooleanField(
        help_text="The vocabulary knows every byte, so nothing is unknown: see tokens_per_word."
    )
    unknown_share = serializers.FloatField(help_text="Of the tokens, 0 to 1.")
    unknown = RowsFoundSerializer(help_text="Rows of mostly unknown tokens.")
    max_tokens = serializers.IntegerField(help_text="The longest input of the root.")
    longest = serializers.IntegerField(help_text="Tokens of the longest row in the sample.")
    long_share = serializers.FloatField(help_text="Share of the sample longer than max_tokens, 0 to 1.")
    long = RowsFoundSerializer()
    too_long = ChoiceField(
        choices=[kind.value for kind in LongTextPolicy],
        help_text="What happens to longer rows: cut, or split into pieces or windows.",
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
    """Measure how a root's tokenizer fits a corpus of the tenant or the platform."""


class PlatformCorpusFitView(_CorpusFit, PlatformView):
    """Measure how a root's tokenizer fits a corpus of the platform."""

    permissions = {"GET": ("datasets.view_corpus",)}


class DatasetFitView(OwnerView):
    """Measure how a root's tokenizer fits a dataset."""

    serializer_class = FitSerializer
    queryset = Dataset.unscoped.none()

    @_FIT
    def get(self, request: Request, dataset_id: int, **_: Any) -> Response:
        dataset = dataset_of(self.tenant, dataset_id)
        root = root_version_by_name(validated_query(FitQuerySerializer, request)["root"])
        return Response(FitSerializer(dataset_fit(root, dataset)).data)


class MeasuredSerializer(serializers.ModelSerializer[Coverage]):
    """The sampled fragments of the upload by what the version's tables have of them: the whole fragment, a
    part, or one token. ``error_message`` is set if measuring failed."""

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
    """The measured coverages. ``waiting`` are the ids of versions that a worker measures now."""

    measured = MeasuredSerializer(many=True)
    waiting = serializers.ListField(child=serializers.IntegerField())


class _Coverage(OwnerView):
    serializer_class = CoverageSerializer
    queryset = Coverage.unscoped.none()

    def coverage_response(self, upload: Corpus | Dataset) -> Response:
        """The measured coverages. Missing ones are requested."""
        measured, waiting = coverages_of(self.tenant, upload)
        if waiting:
            coverage_request(upload)
        data = {"measured": measured, "waiting": [version.pk for version in waiting]}
        return Response(CoverageSerializer(data).data)


class CorpusCoverageView(_Coverage):
    """Get the coverage of a corpus by the tables of each root and domain."""

    @extend_schema(responses=CoverageSerializer)
    def get(self, request: Request, corpus_id: int, **_: Any) -> Response:
        return self.coverage_response(corpus_of(self.tenant, corpus_id))


class DatasetCoverageView(_Coverage):
    """Get the coverage of a dataset by the tables of each root and domain."""

    @extend_schema(responses=CoverageSerializer)
    def get(self, request: Request, dataset_id: int, **_: Any) -> Response:
        return self.coverage_response(dataset_of(self.tenant, dataset_id))
