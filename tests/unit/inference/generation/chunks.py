"""Chunks of sequences, as the scheduler gives them to a runner."""

from collections.abc import Sequence

from inference.engine.rows import ModelIdentity
from inference.generation.requests import SamplingParams
from inference.generation.step import Chunk


def model(digest: str = "root") -> ModelIdentity:
    """The first version of a model of that content."""
    return ModelIdentity("tenant", "model", 1, digest)


def chunk(
    start: int,
    count: int,
    block_table: Sequence[int],
    *,
    name: str = "sequence",
    known: Sequence[int] | None = None,
    prompt: int | None = None,
    sampling: SamplingParams | None = None,
    digest: str = "root",
) -> Chunk:
    """The tokens from start to start + count. known: all tokens of the sequence so far; prompt: how many of
    them are the prompt (None: all)."""
    known = [0] * (start + count) if known is None else known
    return Chunk(
        request_id=name,
        model=model(digest),
        known_tokens=known,
        prompt_tokens=len(known) if prompt is None else prompt,
        start=start,
        count=count,
        block_table=block_table,
        sampling=sampling,
    )
