"""Chooses the next tokens of many sequences from their logits."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.generation.requests import MAX_LOGPROBS, SamplingParams
from inference.generation.step import Chunk
from inference.hplm.upload import Upload, Uploaded

FIRST_CANDIDATES: Final = 256
"""The likeliest tokens that are sorted to find where top_p cuts; rows that need more sort more."""
MORE_CANDIDATES: Final = 8
"""Then so many times as many. On a GPU all tokens: the host waits each time to see which rows need more."""

MIN_TEMPERATURE: Final = 1e-6


class Choice(NamedTuple):
    """A token, its log probability and the likeliest alternatives, as in `SampledToken`."""

    token: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


def sample(logits: Tensor, chunks: Sequence[Chunk]) -> list[Choice | None]:
    """The next token of each chunk that is due one; None where its logits are not finite.

    logits: [R, vocab] float32, a row for each chunk. A row's token does not depend on the other rows. Log
    probabilities are the model's own, before penalties and temperature. Whatever the chunks ask for, one copy
    goes to the device of the logits and one comes back.
    """
    if not chunks:
        return []
    params, upload = _params(chunks), Upload(logits.device)
    penalties, draws = Penalties(chunks, upload), Draws(chunks, upload)
    reported = _Rows(params, lambda asked: asked.logprobs is not None, upload)
    penalized = penalties.apply(logits)
    tokens = draws.replace(penalized.argmax(-1), penalized)
    found = [tokens.double(), torch.isfinite(logits.sum(-1)).double()]
    if reported:
        found.append(_logprobs(reported.of(logits), reported.of(tokens)).flatten())
    return _choices(params, torch.cat(found).cpu().numpy())


class Penalties:
    """The penalties of the rows that have some."""

    def __init__(self, chunks: Sequence[Chunk], upload: Upload) -> None:
        params = _params(chunks)
        self._rows = _Rows(params, _is_penalized, upload)
        own = [params[row] for row in self._rows.numbers]
        self._repetition = _column(own, lambda asked: asked.repetition_penalty, upload)
        self._presence = _column(own, lambda asked: asked.presence_penalty, upload)
        self._frequency = _column(own, lambda asked: asked.frequency_penalty, upload)
        penalized = [chunks[row] for row in self._rows.numbers]
        self._known = _TokenCounts([chunk.known_tokens for chunk in penalized], upload)
        completions = [chunk.known_tokens[chunk.prompt_tokens :] for chunk in penalized]
        self._completions = _TokenCounts(completions, upload)

    def apply(self, logits: Tensor) -> Tensor:
        """The logits [R, vocab] after the penalties of each row."""
        if not self._rows:
            return logits
        own, repetition = self._rows.of(logits), self._repetition.tensor
        scaled = torch.where(own < 0.0, own * repetition, own / repetition)
        own = torch.where(self._known.like(own) > 0.0, scaled, own)
        counts = self._completions.like(own)
        own -= self._frequency.tensor * counts + self._presence.tensor * (counts > 0.0)
        own.nan_to_num_()  # a repetition penalty near 0 overflows
        return self._rows.replace(logits, own)


class Draws:
    """Of the rows with a temperature: which tokens may be drawn, and the numbers that they are drawn with."""

    def __init__(self, chunks: Sequence[Chunk], upload: Upload) -> None:
        params = _params(chunks)
        self._rows = _Rows(params, lambda asked: asked.temperature > 0.0, upload)
        own = [params[row] for row in self._rows.numbers]
        self._temperature = _column(own, lambda asked: max(asked.temperature, MIN_TEMPERATURE), upload)
        self._min_p = _column(own, lambda asked: asked.min_p, upload)
        self._cut = _Rows(own, lambda asked: asked.top_k > 0 or asked.top_p < 1.0, upload)
        cut = [own[row] for row in self._cut.numbers]
        self._top_k = _column(cut, lambda asked: asked.top_k, upload, np.int64)
        self._top_p = _column(cut, lambda asked: asked.top_p, upload)
        self._candidates = max([FIRST_CANDIDATES, *(asked.top_k for asked in cut)])
        uniform = [_uniform(params[row].seed, chunks[row].index) for row in self._rows.numbers]
        self._uniform = upload.add(np.array(uniform, np.float64))

    def replace(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """The tokens [R] int64, those of the rows with a temperature drawn by the logits [R, vocab]."""
        if not self._rows:
            return tokens
        return self._rows.replace(tokens, _draw(self.weights(logits), self._uniform.tensor))

    def weights(self, logits: Tensor) -> Tensor:
        """Probabilities [rows with a temperature, vocab] of the tokens that may be drawn, up to a factor; 0
        of those that may not.

        As in `transformers`: temperature, top_k, top_p of what is left, min_p. Tokens as likely as the last
        one that is kept are kept, too.
        """
        own = self._rows.of(logits)
        # Of the likeliest token: 1, at any temperature that is not 0 in float32.
        weights = own - own.amax(-1, keepdim=True)
        weights.div_(self._temperature.tensor).exp_()
        least = self._min_p.tensor
        if self._cut:
            cut = self._cut.of(weights), self._top_k.tensor, self._top_p.tensor
            of_cut = torch.maximum(self._cut.of(least), _least_weight(*cut, self._candidates))
            least = self._cut.replace(least, of_cut)
        return torch.where(weights < least, 0.0, weights)


class _Rows:
    """The rows of a step's tensors whose parameters fulfil a condition."""

    def __init__(
        self, params: Sequence[SamplingParams], condition: Callable[[SamplingParams], bool], upload: Upload
    ) -> None:
        self.numbers = [row for row, asked in enumerate(params) if condition(asked)]
        self._are_all = len(self.numbers) == len(params)
        self._at = upload.add(np.array(self.numbers, np.int64))

    def __bool__(self) -> bool:
        return bool(self.numbers)

    def of(self, tensor: Tensor) -> Tensor:
        """These rows of a tensor of all; the tensor itself if they are all."""
        return tensor if self._are_all else tensor.index_select(0, self._at.tensor)

    def replace(self, tensor: Tensor, own: Tensor) -> Tensor:
        """The tensor of all rows with `own` in the place of these."""
        return own if self._are_all else tensor.index_copy(0, self._at.tensor, own)


class _TokenCounts:
    """How often each token occurs in each of some rows."""

    def __init__(self, tokens: Sequence[Sequence[int]], upload: Upload) -> None:
        counts = np.array([len(row) for row in tokens], np.int64)
        self._rows = upload.add(np.repeat(np.arange(len(tokens)), counts))
        self._ids = upload.add(np.fromiter(chain.from_iterable(tokens), np.int64, counts.sum()))

    def like(self, logits: Tensor) -> Tensor:
        """The counts [R, vocab] in the dtype of logits [R, vocab]."""
        at = self._rows.tensor, self._ids.tensor
        return torch.zeros_like(logits).index_put_(at, logits.new_ones(()), accumulate=True)


def _params(chunks: Sequence[Chunk]) -> list[SamplingParams]:
    params = [chunk.sampling for chunk in chunks if chunk.sampling is not None]
    assert len(params) == len(chunks), "a chunk is due no token"
    return params


def _is_penalized(asked: SamplingParams) -> bool:
    return asked.repetition_penalty != 1.0 or asked.presence_penalty != 0.0 or asked.frequency_penalty != 0.0


def _column(
    params: Sequence[SamplingParams],
    field: Callable[[SamplingParams], float],
    upload: Upload,
    dtype: "type[np.float32 | np.int64]" = np.float32,
) -> Uploaded:
    """A field of each row's parameters as a column [R, 1]."""
    with np.errstate(over="ignore"):  # a penalty may be infinite in float32
        return upload.add(np.array([field(asked) for asked in params]).astype(dtype).reshape(-1, 1))


def _least_weight(weights: Tensor, top_k: Tensor, top_p: Tensor, candidates: int) -> Tensor:
    """The weight [R, 1] of the last token that top_k and top_p [R, 1] keep; 0 if they keep all. So many
    candidates, at least the largest top_k, are sorted first."""
    vocab = weights.shape[-1]
    candidates = min(candidates, vocab)
    likeliest = weights.topk(candidates).values
    last = (top_k - 1).clamp(0, candidates - 1)
    by_count = likeliest.gather(-1, last).masked_fill(top_k == 0, 0.0)
    # `sum` adds up one row in another order than one of many; running sums do not.
    mass = _running_sums(torch.where(weights < by_count, 0.0, weights))[:, -1:]
    likeliest = torch.where(likeliest < by_count, 0.0, likeliest)
    before = _running_sums(likeliest) - likeliest
    kept = (before < top_p * mass).sum(-1, keepdim=True).clamp(min=1)
    is_cut = top_p < 1.0
    least = torch.maximum(by_count, likeliest.gather(-1, kept - 1).masked_fill(~is_cut, 0.0))
    if candidates < vocab:
        unfinished = (is_cut & (kept == candidates))[:, 0].nonzero()[:, 0]
        if len(unfinished):
            more = MORE_CANDIDATES * candidates if weights.device.type == "cpu" else vocab
            rest = weights[unfinished], top_k[unfinished], top_p[unfinished]
            least[unfinished] = _least_weight(*rest, more)
    return least


def _draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Tokens [R] int64 drawn by weights [R, vocab] with numbers [R] float64 from [0, 1). Any token where the
    weights are not finite."""
    cumulative = _running_sums(weights)
    total = cumulative[:, -1:]
    target = (uniform[:, None] * total).to(weights.dtype)
    # Rounding must not reach the total, behind which there is no token.
    target = torch.minimum(target, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=weights.shape[-1] - 1)


def _running_sums(weights: Tensor) -> Tensor:
    """The cumulative sums [R, n] of each row. A GPU adds up a lone row in pieces, whose order differs by run;
    so it gets the row twice."""
    if len(weights) > 1 or weights.device.type == "cpu":
        return weights.cumsum(-1)
    return weights.expand(2, -1).cumsum(-1)[:1]


def _uniform(seed: int, index: int) -> float:
    """A number from [0, 1) that depends on the seed and the token's index in the completion alone (Philox, a
    generator that counts; Salmon et al., 2011)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=index)).random())


def _logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Of each row of logits [R, vocab] the log probability of its token [R], the ids of the n likeliest
    tokens, and their log probabilities: [R, 1 + 2 * n] float64.

    n does not depend on what is asked for: else it would decide which of equally likely tokens are named.
    """
    logprobs = logits.log_softmax(-1)
    values, ids = logprobs.topk(min(MAX_LOGPROBS, logits.shape[-1]))
    return torch.cat([part.double() for part in (logprobs.gather(-1, tokens[:, None]), ids, values)], -1)


def _choices(params: Sequence[SamplingParams], found: NDArray[np.float64]) -> list[Choice | None]:
    """The choices. found: the token of each row, whether its logits are finite, and `_logprobs` of the rows
    that asked for them."""
    tokens, finite, reports = np.split(found, [len(params), 2 * len(params)])
    asking = sum(asked.logprobs is not None for asked in params)
    rows = iter(reports.reshape(asking, -1) if asking else ())
    choices = list[Choice | None]()
    for asked, token, is_finite in zip(params, tokens.tolist(), finite.tolist(), strict=True):
        choice = Choice(int(token))
        if asked.logprobs is not None:
            logprob, *rest = next(rows).tolist()
            ids, values = rest[: len(rest) // 2], rest[len(rest) // 2 :]
            alternatives = tuple(zip(map(int, ids), values, strict=True))[: asked.logprobs]
            choice = Choice(int(token), logprob, alternatives)
        choices.append(choice if is_finite else None)
    return choices
