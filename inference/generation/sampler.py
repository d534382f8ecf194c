"""Chooses the next tokens of many sequences from their logits."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from inference.generation.requests import SamplingParams
from inference.generation.step import Chunk

FIRST_CANDIDATES: Final = 256
"""The likeliest tokens that are sorted to find where top_p cuts; rows that need more sort more."""

MIN_TEMPERATURE: Final = 1e-6


class Choice(NamedTuple):
    """A token, its log probability and the likeliest alternatives, as in `SampledToken`."""

    token: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


def sample(logits: Tensor, chunks: Sequence[Chunk]) -> list[Choice | None]:
    """The next token of each chunk that is due one; None where its logits are not finite.

    logits: [R, vocab] float32, a row for each chunk. A row's token does not depend on the other rows. Log
    probabilities are the model's own, before penalties and temperature.
    """
    params = _params(chunks)
    finite = torch.isfinite(logits.sum(-1))
    if not bool(finite.all()):
        logits = logits.masked_fill(~finite[:, None], 0.0)
    tokens = _penalize(logits, chunks).argmax(-1)
    if drawn := [row for row, asked in enumerate(params) if asked.temperature > 0.0]:
        weights = token_weights(logits[drawn], [chunks[row] for row in drawn])
        uniform = [_uniform(params[row].seed, chunks[row].index) for row in drawn]
        tokens[drawn] = _draw(weights, torch.tensor(uniform, dtype=torch.float64, device=logits.device))
    found = zip(logits, tokens.tolist(), params, finite.tolist(), strict=True)
    return [
        _choice(row, token, asked.logprobs) if is_finite else None for row, token, asked, is_finite in found
    ]


def token_weights(logits: Tensor, chunks: Sequence[Chunk]) -> Tensor:
    """Probabilities [R, vocab] of the tokens that may be drawn, up to a factor; 0 of those that may not.

    As in `transformers`: penalties, temperature, top_k, top_p of what is left, min_p. Tokens as likely as the
    last one that is kept are kept, too.
    """
    params = _params(chunks)
    column = _columns(params, logits.device)
    logits = _penalize(logits, chunks)
    # Of the likeliest token: 1, at any temperature that is not 0 in float32.
    weights = logits - logits.amax(-1, keepdim=True)
    weights.div_(column(lambda asked: max(asked.temperature, MIN_TEMPERATURE))).exp_()
    least = column(lambda asked: asked.min_p)
    if cut := [row for row, asked in enumerate(params) if asked.top_k > 0 or asked.top_p < 1.0]:
        top_k = column(lambda asked: min(asked.top_k, logits.shape[-1])).long()[cut]
        top_p = column(lambda asked: asked.top_p)[cut]
        least[cut] = torch.maximum(least[cut], _least_weight(weights[cut], top_k, top_p))
    return torch.where(weights < least, 0.0, weights)


def _params(chunks: Sequence[Chunk]) -> list[SamplingParams]:
    params = [chunk.sampling for chunk in chunks if chunk.sampling is not None]
    assert len(params) == len(chunks), "a chunk is due no token"
    return params


def _choice(logits: Tensor, token: int, alternatives: int | None) -> Choice:
    if alternatives is None:
        return Choice(token)
    logprobs = logits.log_softmax(-1)
    values, ids = logprobs.topk(min(alternatives, len(logprobs)))
    return Choice(token, float(logprobs[token]), tuple(zip(ids.tolist(), values.tolist(), strict=True)))


def _penalize(logits: Tensor, chunks: Sequence[Chunk]) -> Tensor:
    """The logits [R, vocab] after the penalties of each row."""
    params = _params(chunks)
    rows = [row for row, asked in enumerate(params) if _is_penalized(asked)]
    if not rows:
        return logits
    column = _columns([params[row] for row in rows], logits.device)
    repetition = column(lambda asked: asked.repetition_penalty)
    presence = column(lambda asked: asked.presence_penalty)
    frequency = column(lambda asked: asked.frequency_penalty)
    known = [chunks[row].known_tokens for row in rows]
    completions = [chunks[row].known_tokens[chunks[row].prompt_tokens :] for row in rows]
    penalized = logits[rows]
    scaled = torch.where(penalized < 0.0, penalized * repetition, penalized / repetition)
    penalized = torch.where(_counts(known, penalized) > 0.0, scaled, penalized)
    counts = _counts(completions, penalized)
    penalized -= frequency * counts + presence * (counts > 0.0)
    penalized.nan_to_num_()  # a repetition penalty near 0 overflows
    return logits.index_copy(0, torch.tensor(rows, device=logits.device), penalized)


def _is_penalized(asked: SamplingParams) -> bool:
    return asked.repetition_penalty != 1.0 or asked.presence_penalty != 0.0 or asked.frequency_penalty != 0.0


def _counts(tokens: Sequence[Sequence[int]], like: Tensor) -> Tensor:
    """How often each token [R, vocab] occurs in each row."""
    rows = np.repeat(np.arange(len(tokens)), [len(row) for row in tokens])
    ids = np.concatenate([np.asarray(row, np.int64) for row in tokens])
    at = (torch.from_numpy(rows).to(like.device), torch.from_numpy(ids).to(like.device))
    return torch.zeros_like(like).index_put_(at, like.new_ones(()), accumulate=True)


def _least_weight(
    weights: Tensor, top_k: Tensor, top_p: Tensor, candidates: int = FIRST_CANDIDATES
) -> Tensor:
    """The weight [R, 1] of the last token that top_k and top_p [R, 1] keep; 0 if they keep all. So many
    candidates, or as many as the largest top_k, are sorted first."""
    vocab = weights.shape[-1]
    candidates = min(max(candidates, int(top_k.max())), vocab)
    likeliest = weights.topk(candidates).values
    by_count = likeliest.gather(-1, (top_k - 1).clamp(min=0)).masked_fill(top_k == 0, 0.0)
    # `sum` adds up one row in another order than one of many; `cumsum` does not.
    mass = torch.where(weights < by_count, 0.0, weights).cumsum(-1)[:, -1:]
    likeliest = torch.where(likeliest < by_count, 0.0, likeliest)
    before = likeliest.cumsum(-1) - likeliest
    kept = (before < top_p * mass).sum(-1, keepdim=True).clamp(min=1)
    is_cut = top_p < 1.0
    least = torch.maximum(by_count, likeliest.gather(-1, kept - 1).masked_fill(~is_cut, 0.0))
    if candidates < vocab:
        unfinished = (is_cut & (kept == candidates))[:, 0].nonzero()[:, 0]
        if len(unfinished):
            rest = weights[unfinished], top_k[unfinished], top_p[unfinished]
            least[unfinished] = _least_weight(*rest, candidates=8 * candidates)
    return least


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Tokens [R] int64 drawn by weights [R, vocab] with numbers [R] float64 from [0, 1)."""
    cumulative = weights.cumsum(-1)
    total = cumulative[:, -1:]
    target = (uniform[:, None] * total).to(weights.dtype)
    # Rounding must not reach the total, behind which there is no token.
    target = torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]


def _uniform(seed: int, index: int) -> float:
    """A number from [0, 1) that depends on the seed and the token's index in the completion alone (Philox, a
    generator that counts; Salmon et al., 2011)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=index)).random())


def _columns(
    params: Sequence[SamplingParams], device: torch.device
) -> Callable[[Callable[[SamplingParams], float]], Tensor]:
    """A function that reads a field of each row's parameters as a column [R, 1] float32."""

    def column(field: Callable[[SamplingParams], float]) -> Tensor:
        return torch.tensor([[field(asked)] for asked in params], dtype=torch.float32, device=device)

    return column
