"""The stored predictions of an evaluated version, and evaluating it again."""

from collections.abc import Iterator, Sequence
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from tenants.accounts.permissions import request_actor
from tenants.base.api.inputs import ChoiceField, StrictSerializer, validated_body, validated_query
from tenants.base.errors import ErrorCode, HmiError, not_found, require_found
from tenants.datasets.selectors.uploads import dataset_of
from versiontree.jobs.api.jobs import OwnerView
from versiontree.jobs.api.serializers import JobSerializer
from versiontree.jobs.models import Job
from versiontree.tree.evaluation_answers import (
    AnswerChange,
    ChangeKind,
    RowAnswer,
    answers_compare,
    answers_filter,
    mcnemar,
)
from versiontree.tree.models import Evaluation, Version
from versiontree.tree.selectors.evaluations import (
    Row,
    answers_of,
    evaluation_of,
    evaluations_shared,
    row_source,
    rows_read,
)
from versiontree.tree.selectors.versions import hplm_of, hplm_version
from versiontree.tree.services.evaluations import evaluation_request

ChosenAnswers = Sequence[RowAnswer | AnswerChange]


class PredictionsQuerySerializer(serializers.Serializer[Any]):
    """Filters of predictions. ``against`` is the number of another version: list only changes from it."""

    wrong = serializers.BooleanField(required=False, default=False)
    gold = serializers.CharField(required=False, default="", allow_blank=True)
    predicted = serializers.CharField(required=False, default="", allow_blank=True)
    against = serializers.IntegerField(required=False, default=None, min_value=1)
    change = ChoiceField(required=False, choices=[one.value for one in ChangeKind])
    cursor = serializers.CharField(required=False, allow_blank=True, default="")
    limit = serializers.IntegerField(required=False, default=50, min_value=1, max_value=500)


class EvaluateSerializer(StrictSerializer):
    """The id of the dataset to evaluate on, by default the version's own."""

    dataset = serializers.IntegerField(required=False, allow_null=True, default=None)


class PredictionsView(OwnerView):
    """List the stored predictions of a version. A cursor is valid until it is evaluated again."""

    queryset = Evaluation.unscoped.none()
    pagination_class = None  # type: ignore[assignment]

    @extend_schema(parameters=[PredictionsQuerySerializer], responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, name: str, number: int, **_: Any) -> Response:
        query = validated_query(PredictionsQuerySerializer, request)
        version = hplm_version(hplm_of(self.tenant, name), number)
        evaluation, chosen, about = self._select(version, query)
        start = _start(query["cursor"], evaluation)
        page = chosen[start : start + query["limit"]]
        source = row_source(self.tenant, evaluation.test_sha256)
        rows = rows_read(source, (one.after if isinstance(one, AnswerChange) else one for one in page))
        end = start + len(page)
        return Response(
            {
                "next": _next(request, evaluation, end) if end < len(chosen) else None,
                "count": len(chosen),
                "dataset": evaluation.dataset_name,
                "dataset_deleted": source is None,
                **about,
                "results": list(_to_json(page, rows)),
            }
        )

    def _select(
        self, version: Version, query: dict[str, Any]
    ) -> tuple[Evaluation, ChosenAnswers, dict[str, Any]]:
        if query["against"] is not None:
            return self._select_changes(version, query)
        row = evaluation_of(self.tenant, version)
        evaluation = require_found(row, f"stored answer of version {version.number}: evaluate it again")
        answers = answers_of(evaluation)
        filters = {name: query[name] for name in ("wrong", "gold", "predicted")}
        about = {"rows": answers.rows, "stored": len(answers.answered)}
        return evaluation, answers_filter(answers, **filters), about

    def _select_changes(
        self, version: Version, query: dict[str, Any]
    ) -> tuple[Evaluation, ChosenAnswers, dict[str, Any]]:
        assert version.hplm is not None
        other = hplm_version(version.hplm, query["against"])
        pair = evaluations_shared(self.tenant, other, version)
        if pair is None:
            raise not_found(
                f"row that both version {other.number} and version {version.number} answered: evaluate one"
                " on the dataset of the other",
                param="against",
            )
        before, after = (answers_of(evaluation) for evaluation in pair)
        changes = answers_compare(before, after)
        counts = {kind.value: sum(one.change == kind for one in changes) for kind in ChangeKind}
        about = {
            "rows": after.rows,
            "stored": len(after.answered),
            "changes": counts,
            "p_value": mcnemar(counts[ChangeKind.FIXED], counts[ChangeKind.BROKEN]),
        }
        return pair[1], [one for one in changes if query.get("change", one.change) == one.change], about


class EvaluateView(OwnerView):
    """Evaluate a version on the test split of a dataset. Its metrics do not change."""

    serializer_class = JobSerializer
    queryset = Job.unscoped.none()

    @extend_schema(request=EvaluateSerializer, responses={201: JobSerializer})
    def post(self, request: Request, name: str, number: int, **_: Any) -> Response:
        version = hplm_version(hplm_of(self.tenant, name), number)
        chosen = validated_body(EvaluateSerializer, request)["dataset"] or version.dataset_id
        if chosen is None:
            raise HmiError(
                ErrorCode.MISSING_FIELD,
                "The dataset of this version was deleted. Name another one of its task.",
                param="dataset",
            )
        job = evaluation_request(
            version=version,
            dataset=dataset_of(self.tenant, chosen),
            tenant=self.tenant,
            actor=request_actor(request),
        )
        return Response(JobSerializer(job).data, status=status.HTTP_201_CREATED)


def _start(cursor: str, evaluation: Evaluation) -> int:
    """The index of the first prediction of a page."""
    if not cursor:
        return 0
    digest, _, index = cursor.partition("-")
    if digest != _cursor_prefix(evaluation) or not (index.isdecimal() and len(index) < 10):
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            "This cursor is invalid; perhaps the version was evaluated again. Start without a cursor.",
            param="cursor",
        )
    return int(index)


def _next(request: Request, evaluation: Evaluation, index: int) -> str:
    return str(
        replace_query_param(request.build_absolute_uri(), "cursor", f"{_cursor_prefix(evaluation)}-{index}")
    )


def _cursor_prefix(evaluation: Evaluation) -> str:
    return evaluation.artifact.digest[:12]


def _to_json(page: ChosenAnswers, rows: Iterator[Row | None]) -> Iterator[dict[str, Any]]:
    for one, row in zip(page, rows, strict=True):
        if isinstance(one, AnswerChange):
            gold = {"row": one.after.row, "input": row, "gold": one.after.gold, "change": one.change.value}
            yield gold | {"before": _side(one.before), "after": _side(one.after)}
        else:
            yield {"row": one.row, "input": row, "gold": one.gold, **_side(one)}


def _side(one: RowAnswer) -> dict[str, Any]:
    return {"predicted": one.answer, "right": one.right, "score": one.score}
