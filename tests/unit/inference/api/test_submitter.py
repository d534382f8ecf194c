"""Cancelling a submission before and after the workers have it, and closing a submitter that has work."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from threading import Event
from typing import Any

import pytest

from inference.api import submitter as module
from inference.api.admission import AdmissionRequest, ServingState
from inference.api.submitter import AT_ONCE, Submission, Submitter
from inference.queueing.messages import InferReply, InferRequest, ModelRef, TokenSequence
from tenants.base.errors import ErrorCode, HmiError

MODEL = ModelRef("acme", "mood", 1, "d1")
PATIENCE_S = 20.0
"""A test that waits longer has failed."""


class Prepared:
    """What a submitter reads of a prepared request."""

    model = MODEL
    sequences = (TokenSequence(b"\1\0\0\0"),)
    admission = AdmissionRequest("acme", "root", "Root", 5.0)

    def __init__(self, name: str) -> None:
        self.request_id = name
        self.request_options = {"root": "root", "seconds": 5.0, "call": name}


class Queue:
    """Takes what is submitted once it is ``open``; ``busy`` as soon as somebody submits."""

    def __init__(self) -> None:
        self.open, self.busy = Event(), Event()
        self.submitted: list[str] = []
        self.cancelled: list[str | None] = []

    def submit_all(self, messages: Sequence[InferRequest]) -> list[None]:
        self.busy.set()
        assert self.open.wait(PATIENCE_S)
        self.submitted += [message.call for message in messages]
        return [None] * len(messages)

    def cancel(self, tenant: str, call: str, *, request: str | None = None) -> bool:
        self.cancelled.append(request)
        return True


class Client:
    """An `InferClient` without a server."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.expected: set[str] = set()

    def request(self, model: ModelRef, sequences: Any, **options: Any) -> InferRequest:
        return InferRequest(
            id=f"{options['call']}.1",
            tenant=model.tenant,
            hplm=model.hplm,
            version=model.version,
            digest=model.digest,
            root=options["root"],
            sequences=sequences,
            deadline=1.0,
            enqueued_at=0.0,
            reply_to="replies",
        )

    def expect(self, message: InferRequest, on_reply: Any) -> None:
        self.expected.add(message.id)

    def forget(self, request_id: str) -> None:
        self.expected.discard(request_id)


class Connection:
    """A `Gateway` to it, where the root is served."""

    state = ServingState((), {}, {}, {"root"})

    def __init__(self) -> None:
        self.client = Client()

    def look_if_stale(self) -> None:
        """It never is."""


class AtOnce(Executor):
    """Runs what it is given before it returns."""

    def submit(self, step: Any, /, *given: Any, **named: Any) -> Future[Any]:
        step(*given, **named)
        return Future()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connection:
    """Also that of the process."""
    made = Connection()
    monkeypatch.setattr(module, "gateway", lambda: made)
    return made


def prepared(name: str) -> Any:
    return Prepared(name)


def submission_to(connection: Connection, name: str = "one") -> Submission:
    made = prepared(name)
    message = connection.client.request(made.model, made.sequences, **made.request_options)
    return Submission(made, message, AtOnce(), connection.client.forget)


async def cancel_asker(submission: Submission) -> None:
    """Cancel the task that waits for the reply."""
    asker = asyncio.create_task(submission.reply())
    await asyncio.sleep(0)  # now it waits
    asker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asker


def test_cancelled_caller_cancels_a_request_that_was_submitted(connection: Connection) -> None:
    submission = submission_to(connection)
    submission.accept()
    asyncio.run(cancel_asker(submission))
    assert connection.client.queue.cancelled == ["one.1"]
    submission.answer(InferReply.failure("one.1", MODEL, "cancelled", "too late for anybody"))


def test_caller_cancelled_before_the_submission_cancels_it_afterwards(connection: Connection) -> None:
    submission = submission_to(connection)
    asyncio.run(cancel_asker(submission))
    assert not submission.is_wanted
    assert connection.client.queue.cancelled == []
    submission.accept()
    assert connection.client.queue.cancelled == ["one.1"]


def test_request_of_a_caller_cancelled_while_it_waited_is_not_submitted(connection: Connection) -> None:
    queue, submitter = connection.client.queue, Submitter(connection)  # type: ignore[arg-type]
    first = submitter.submit(prepared("first"))
    assert queue.busy.wait(PATIENCE_S)
    second = submitter.submit(prepared("second"))
    asyncio.run(cancel_asker(second))
    queue.open.set()
    submitter.close()
    assert queue.submitted == ["first"]
    assert (first.accepted, second.accepted) == (True, False)
    assert queue.cancelled == []
    assert connection.client.expected == {"first.1"}
    first.answer(InferReply.failure("first.1", MODEL, "cancelled", "the reply"))
    assert connection.client.expected == set()


def test_closing_submits_all_that_wait(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, submitter = connection.client.queue, Submitter(connection)  # type: ignore[arg-type]
    join = submitter._thread.join

    def open_and_join(timeout: float) -> None:
        queue.open.set()  # not before it was told to end
        join(timeout)

    monkeypatch.setattr(submitter._thread, "join", open_and_join)
    names = [f"n{number}" for number in range(AT_ONCE + 3)]
    submissions = [submitter.submit(prepared(names[0]))]
    assert queue.busy.wait(PATIENCE_S)
    submissions += [submitter.submit(prepared(name)) for name in names[1:]]
    assert queue.submitted == []
    submitter.close()
    assert not submitter._thread.is_alive()
    assert sorted(queue.submitted) == sorted(names)
    assert all(submission.accepted for submission in submissions)
    submissions[0].cancel()  # it can be cancelled no more, and nothing is raised
    assert queue.cancelled == []


def test_a_fault_while_submitting_refuses_all_that_wait(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        assert connection.client.queue.open.wait(PATIENCE_S)
        raise ZeroDivisionError

    monkeypatch.setattr(connection.client.queue, "submit_all", fail)
    submitter = Submitter(connection)  # type: ignore[arg-type]
    submissions = [submitter.submit(prepared(name)) for name in ("first", "second")]
    connection.client.queue.open.set()
    submitter.close()
    for submission in submissions:
        with pytest.raises(HmiError) as refusal:
            asyncio.run(submission.reply())
        assert refusal.value.code is ErrorCode.INTERNAL
