"""The sampler chooses as the logits processors of transformers do, each row by itself."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inference.generation.requests import SamplingParams
from inference.generation.sampler import Choice, Draws, Penalties, sample
from inference.generation.step import Chunk
from inference.hplm.upload import Upload
from tests.pretended_cuda import pretended_cuda
from tests.unit.inference.generation.chunks import chunk

VOCAB = 2000


def random_logits(rows: int, seed: int = 0, spread: float = 2.0, vocab: int = VOCAB) -> Tensor:
    return spread * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


def due(known: Sequence[int] = (1,), prompt: int = 1, **fields: Any) -> Chunk:
    """A chunk whose last token is computed, and that is due the next one."""
    sampling = SamplingParams(max_tokens=1000, **fields)
    return chunk(len(known) - 1, 1, [0], known=known, prompt=prompt, sampling=sampling)


def chosen(logits: Tensor, chunks: Sequence[Chunk]) -> list[Choice]:
    choices = [choice for choice in sample(logits, chunks) if choice is not None]
    assert len(choices) == len(chunks)
    return choices


def drawn(logits: Tensor, count: int, **fields: Any) -> Counter[int]:
    """How often each token is drawn from logits [vocab] as the tokens 1 to count of a completion."""
    chunks = [due(range(index + 2), 1, **fields) for index in range(count)]
    return Counter(choice.token for choice in chosen(logits.expand(count, -1), chunks))


def expected(logits: Tensor, known: Sequence[int], params: SamplingParams) -> Tensor:
    """The probabilities [vocab] that transformers draws from."""
    processors = LogitsProcessorList()
    processors.append(RepetitionPenaltyLogitsProcessor(params.repetition_penalty))
    processors.append(TemperatureLogitsWarper(params.temperature))
    if params.top_k:
        processors.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1.0:
        processors.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        processors.append(MinPLogitsWarper(params.min_p))
    scores: Tensor = processors(torch.LongTensor([list(known)]), logits[None])
    return scores.softmax(-1)[0]


WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.3},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 300},
    {"top_k": 10**12},
    {"top_p": 0.01},
    {"top_p": 0.5},
    {"top_p": 0.999},
    {"min_p": 0.05},
    {"temperature": 1.7, "top_k": 50, "top_p": 0.8, "min_p": 0.02, "repetition_penalty": 1.3},
    {"top_k": 1000, "top_p": 0.95, "repetition_penalty": 0.7},
)


@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_the_probabilities_are_those_of_transformers(spread: float) -> None:
    logits = random_logits(len(WAYS), seed=1, spread=spread)
    known = [3, 5, 5, 8, 1999]
    params = [SamplingParams(max_tokens=9, **way) for way in WAYS]
    chunks = [due(known, 2, **way) for way in WAYS]
    upload = Upload(logits.device)
    penalties, draws = Penalties(chunks, upload), Draws(chunks, upload)
    weights = draws.weights(penalties.apply(logits))
    found = weights / weights.sum(-1, keepdim=True)
    for row, asked in enumerate(params):
        torch.testing.assert_close(found[row], expected(logits[row], known, asked), atol=1e-6, rtol=1e-4)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    logits = random_logits(1, vocab=6)[0]
    counts = drawn(logits, 4000, seed=11)
    shares = torch.tensor([counts[token] / 4000 for token in range(6)])
    torch.testing.assert_close(shares, logits.softmax(-1), atol=0.03, rtol=0.0)


def test_temperature_0_takes_the_likeliest_token() -> None:
    logits = random_logits(5)
    chunks = [due(temperature=0.0, seed=row, top_k=row) for row in range(5)]
    assert [choice.token for choice in chosen(logits, chunks)] == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1e-300, 1e-9, 1e-3])
def test_a_temperature_near_0_takes_it_too(temperature: float) -> None:
    logits = random_logits(1)
    assert chosen(logits, [due(temperature=temperature)])[0].token == int(logits.argmax())


@pytest.mark.parametrize("penalty", [1e-300, 1e300])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_repetition_penalty_that_overflows_still_gives_a_token(penalty: float, temperature: float) -> None:
    logits = torch.tensor([[4.0, -3.9, 0.0, 1.0], [-4.0, -3.9, -3.0, -1.0]])
    chunks = [due(range(4), 1, temperature=temperature, repetition_penalty=penalty)] * 2
    assert all(choice.token in range(4) for choice in chosen(logits, chunks))


def test_presence_and_frequency_penalties_count_the_completion_alone() -> None:
    logits = torch.tensor([[4.0, 3.9, 3.8, 1.0]])
    known = [0, 0, 0, 1, 2, 2]
    penalties: list[dict[str, Any]] = [
        {},
        {"presence_penalty": 1.0},
        {"frequency_penalty": 0.15},
        {"presence_penalty": 1.0, "frequency_penalty": -2.0},
    ]
    after_prompt = [due(known, 3, temperature=0.0, **fields) for fields in penalties]
    from_the_start = [due(known, 0, temperature=0.0, **fields) for fields in penalties]
    tokens = [
        [choice.token for choice in chosen(logits.expand(4, -1), chunks)]
        for chunks in (after_prompt, from_the_start)
    ]
    assert tokens == [[0, 0, 0, 2], [0, 0, 1, 0]]


def test_the_draw_depends_on_seed_and_index_alone() -> None:
    logits = random_logits(1).expand(40, -1)
    known = [7] * 50
    by_index = [due(known[: index + 1], 1, seed=5) for index in range(40)]
    by_seed = [due(known[:4], 1, seed=seed) for seed in range(40)]
    other_prompt = [due([9] * 20 + known[:index], 20, seed=5) for index in range(40)]
    tokens = [[choice.token for choice in chosen(logits, chunks)] for chunks in (by_index, other_prompt)]
    assert tokens[0] == tokens[1]
    assert len(set(tokens[0])) > 20
    assert len({choice.token for choice in chosen(logits, by_seed)}) > 20


def test_a_row_gets_the_same_token_in_any_company() -> None:
    """And the same log probabilities: in bfloat16 many tokens are as likely as others."""
    logits = random_logits(3 * len(WAYS), seed=3, spread=0.7).bfloat16().float()
    logprobs = [None, 0, 2, 3, 20]
    chunks = [
        due([4, 5, 6, row], 2, seed=row, logprobs=logprobs[row % len(logprobs)], **WAYS[row % len(WAYS)])
        for row in range(len(logits))
    ]
    together = sample(logits, chunks)
    assert together == [sample(logits[row : row + 1], [chunks[row]])[0] for row in range(len(logits))]
    assert together == sample(logits.flip(0), chunks[::-1])[::-1]


@pytest.mark.parametrize("damage", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_not_finite_fail_their_row_alone(damage: float) -> None:
    logits = random_logits(4)
    chunks = [due(seed=1), due(top_p=0.9, top_k=5), due(repetition_penalty=1.2), due(temperature=0.0)]
    before = sample(logits, chunks)
    for row in range(4):
        damaged = logits.clone()
        damaged[row, 17] = damage
        assert sample(damaged, chunks) == [None if at == row else before[at] for at in range(4)]


def test_log_probabilities_are_those_of_the_model_itself() -> None:
    logits = random_logits(3)
    chunks = [
        due([3, 4], 1, temperature=0.5, top_k=3, repetition_penalty=1.5, logprobs=4),
        due(temperature=0.0, logprobs=0),
        due(),
    ]
    first, second, third = chosen(logits, chunks)
    logprobs = logits.log_softmax(-1)
    assert first.logprob == pytest.approx(float(logprobs[0, first.token]))
    values, ids = logprobs[0].topk(4)
    assert [token for token, _ in first.alternatives] == ids.tolist()
    assert [value for _, value in first.alternatives] == pytest.approx(values.tolist())
    assert second.logprob == pytest.approx(float(logprobs[1].max()))
    assert second.alternatives == ()
    assert (third.logprob, third.alternatives) == (None, ())


def test_a_gpu_never_sums_a_lone_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its order of addition would differ from run to run."""
    summed: list[int] = []
    cumsum = Tensor.cumsum

    def noted(weights: Tensor, dim: int) -> Tensor:
        summed.append(len(weights))
        return cumsum(weights, dim)

    chunks = [due(top_p=0.999, temperature=2.0, seed=3, logprobs=2)]
    expected = sample(random_logits(1), chunks)
    with pretended_cuda():
        monkeypatch.setattr(Tensor, "cumsum", noted)
        assert sample(random_logits(1).to("cuda"), chunks) == expected
    assert len(summed) == 5  # the draw, and twice the mass and the likeliest tokens, of which there are many
    assert min(summed) == 2
