"""Whether a corpus is enough for the jobs that would learn from it."""

from typing import Final

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import Corpus

LEAST_TEXTS: Final = 8
"""What every job that reads a corpus asks for; `workers.training.corpus` has the same number, which it cannot
take from here."""


def corpus_check_size(*, corpus: Corpus, what: str, words: int = 0) -> None:
    """Refuse a corpus of too few words or texts before a job is queued that would fail: ``corpus_too_small``.

    ``what`` is to be built from it, such as "A domain"; ``words`` is the least that it needs.
    """
    for unit, having, least in (("words", corpus.words, words), ("texts", corpus.rows, LEAST_TEXTS)):
        if having < least:
            raise HmiError(
                ErrorCode.CORPUS_TOO_SMALL,
                f"{what} needs at least {least:,} {_IN_WORDS[unit]}; this corpus has {having:,}.",
                param="corpus",
                details={unit: having, "minimum": least},
            )


_IN_WORDS: Final = {"words": "words of text", "texts": "texts, each on a line of its own"}
