"""A batch's request that stops workers: the inputs that do it fail alone, and only so many workers stop."""

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from redis import Redis

from inference.batches.inference_client import MAX_CRASHING_INPUTS, BatchInferClient, InferenceResults
from inference.cascade.dispatcher import AnswerPolicy
from inference.queueing.consumer import MAX_DELIVERIES, RequestConsumer
from inference.queueing.messages import InferReply, InferRequest, ModelRef, SequenceOutput, TokenSequence
from inference.queueing.replies import InferClient
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import OutputNames
from inference.text.tokenization import Encoding, TextTokenizer
from tenants.base.errors import HmiError
from tests.integration.inference.queueing.requests import ROOT, a_worker, answered, crash
from tests.unit.tiny import tiny_tokenizer

POISON = "disease"
WORDS = ("river", "stone", "garden", "copper", "doctor")
CODEC = TextCodec(TextTokenizer(tiny_tokenizer(), max_tokens=16), OutputNames("classification", WORDS))
"""Each word is a label, and what the workers answer to it."""
MODEL = ModelRef("acme", "mood", 1, "d" * 64)


class Victims:
    """Workers, one after the other, each of which stops at a request with the poison in it."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._over = redis, threading.Event()
        self.stopped = 0
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        worker = self._next()
        while not self._over.wait(0.001):
            for entry in worker.claim_abandoned(background=True) or worker.read_background():
                if POISON in map(word_in, entry.request.sequences):
                    crash(self._redis, f"victim{self.stopped}")
                    self.stopped += 1
                    worker = self._next()
                    break
                answered(worker, entry, _answer(entry.request))

    def _next(self) -> RequestConsumer:
        return a_worker(self._redis, f"victim{self.stopped}", ROOT)


def _answer(request: InferRequest) -> InferReply:
    outputs = tuple(SequenceOutput(_logits(word_in(one))) for one in request.sequences)
    return InferReply(id=request.id, ok=True, model=request.model, outputs=outputs)


def word_in(sequence: TokenSequence) -> str:
    """The one word between the special tokens."""
    _, token, _ = np.frombuffer(sequence.ids, "<i4").tolist()
    return str(tiny_tokenizer().id_to_token(token))


def _logits(word: str) -> bytes:
    return np.array([word == label for label in WORDS], "<f4").tobytes()


@pytest.fixture
def victims(redis: Redis) -> Iterator[Victims]:
    working = Victims(redis)
    yield working
    working.end()


@pytest.fixture
def batch_client(redis_url: str, redis: Redis) -> Iterator[BatchInferClient]:
    client = InferClient(redis_url, capacity=8, background=True)
    plan = CODEC.plan(AnswerPolicy.CASCADE)
    yield BatchInferClient(client, MODEL, ROOT, "test", CODEC, plan)
    client.close()


def said(answers: InferenceResults) -> list[str]:
    """The answers, "!" for one that is missing."""
    return ["!" if isinstance(one, HmiError) else one["label"] for one in answers.results]


def inputs(*texts: str) -> list[InferInput]:
    return [InferInput(text) for text in texts]


def test_only_the_input_that_stops_workers_has_no_answer(
    batch_client: BatchInferClient, victims: Victims
) -> None:
    assert said(batch_client.infer(1, inputs("river", "stone", POISON, "garden"))) == [
        "river",
        "stone",
        "!",
        "garden",
    ]
    assert victims.stopped == 2 * MAX_DELIVERIES  # for the request, and for the one line
    assert said(batch_client.infer(5, inputs("copper"))) == ["copper"]


def test_only_an_input_that_breaks_the_tokenizer_has_no_answer(
    batch_client: BatchInferClient, victims: Victims, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode_all = TextTokenizer.encode_all

    def breaks(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[Encoding]:
        if "copper" in texts:
            raise RuntimeError("as a library may")
        return encode_all(tokenizer, texts)

    monkeypatch.setattr(TextTokenizer, "encode_all", breaks)
    answers = batch_client.infer(1, inputs("river", "copper", "stone"))
    assert said(answers) == ["river", "!", "stone"]
    assert victims.stopped == 0


def test_after_so_many_of_them_no_more_workers_are_risked(
    batch_client: BatchInferClient, victims: Victims
) -> None:
    first = batch_client.infer(1, inputs("river", *[POISON] * (MAX_CRASHING_INPUTS + 1), "stone"))
    assert said(first) == ["river", *"!" * (MAX_CRASHING_INPUTS + 2)]
    with pytest.raises(HmiError):
        batch_client.infer(9, inputs("garden", POISON))
    assert victims.stopped == MAX_DELIVERIES * (1 + MAX_CRASHING_INPUTS + 1)
    assert said(batch_client.infer(20, inputs("copper", "doctor"))) == ["copper", "doctor"]
