"""What is counted of the answers of a version: how sure they are, and how the levels gave them."""

from collections.abc import Mapping, Sequence
from typing import Any

from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import AnswerPolicy, Level
from inference.queueing.messages import PlotCounts
from inference.text.codec import TextCodec
from tenants.usage.services.answer_counts import AnswerCount

Result = Mapping[str, Any]


def count_answers(
    codec: TextCodec, plan: AnswerPlan, results: Sequence[Result], plot: PlotCounts
) -> AnswerCount:
    """The counts of the results of one request. Embeddings count for nothing: nobody is sure of them.

    A cascade with a target of its own escalates as that asks for; only what the version's own choice decided
    counts as decided by the cascade.
    """
    if codec.names is None:
        return AnswerCount()
    by_cascade = plan.dispatcher is not None and plan == codec.plan(AnswerPolicy.CASCADE)
    return AnswerCount(
        requests=1,
        texts=len(results),
        table_texts=len(results) if plan.level is Level.TABLE else 0,
        confidence=sum(first_confidence(one) for one in results),
        cascade_texts=len(results) if by_cascade else 0,
        escalated_texts=sum(went_on(one) for one in results) if by_cascade else 0,
        whole=plot.trigram,
        part=plot.bigram,
        unigram=plot.unigram,
    )


def went_on(result: Result) -> bool:
    """Whether the tables answered first, and the text went on to the level FULL."""
    return "table" in result


def first_confidence(result: Result) -> float:
    """The calibrated probability of the level that read the text first; 0.0 of a number, which has none."""
    return float(result.get("table", result).get("confidence", 0.0))
