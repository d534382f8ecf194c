"""The methods of both clients, each bound to the flow that defines it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, overload

from hmi_client.completions import CompletionDelta
from hmi_client.flow import Flow, T
from hmi_client.operations import batches, completions, domains, files, infer, jobs, models, tenants, training
from hmi_client.responses import (
    AliasMove,
    Batch,
    Corpus,
    Dataset,
    Domain,
    Job,
    JobEvent,
    Model,
    Version,
)

P = ParamSpec("P")


class SyncRunner(Protocol):
    """What a method needs of the blocking client."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""

    def iterate(self, flow: Flow[None]) -> Generator[Any]:
        """Run a flow lazily and yield its items."""


class AsyncRunner(Protocol):
    """What a method needs of the asynchronous client."""

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""

    def iterate(self, flow: Flow[None]) -> AsyncGenerator[Any]:
        """Run a flow lazily and yield its items."""


class Method(Generic[P, T]):
    """A method that returns the flow's result, or an awaitable of it on `AsyncClient`."""

    def __init__(self, flow: Callable[P, Flow[T]]) -> None:
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: SyncRunner, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: type) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._flow

        @wraps(self._flow)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self._flow(*args, **kwargs))

        return method


class IteratorMethod(Generic[P, T]):
    """A method that returns an iterator of the flow's items. It is asynchronous on `AsyncClient`."""

    def __init__(self, item: type[T], flow: Callable[P, Flow[None]]) -> None:
        self.item = item
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: SyncRunner, owner: type) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, client: AsyncRunner, owner: type) -> Callable[P, AsyncGenerator[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._flow

        @wraps(self._flow)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.iterate(self._flow(*args, **kwargs))

        return method


class ClientMethods:
    """The API's operations as methods of a client."""

    whoami = Method(tenants.whoami)
    get_usage = Method(tenants.get_usage)

    infer = Method(infer.infer)
    chat = Method(completions.chat)
    stream_chat = IteratorMethod(CompletionDelta, completions.stream_chat)
    complete = Method(completions.complete)
    stream_completion = IteratorMethod(CompletionDelta, completions.stream_completion)

    list_models = IteratorMethod(Model, models.list_models)
    get_model = Method(models.get_model)
    create_model = Method(training.create_model)
    update_model = Method(training.update_model)
    delete_model = Method(models.delete_model)
    list_versions = IteratorMethod(Version, models.list_versions)
    get_version = Method(models.get_version)
    watch_version = IteratorMethod(Job, training.watch_version)
    wait_for_version = Method(training.wait_for_version)
    set_policy = Method(models.set_policy)
    promote = Method(models.promote)
    rollback = Method(models.rollback)
    start_canary = Method(models.start_canary)
    promote_canary = Method(models.promote_canary)
    end_canary = Method(models.end_canary)
    list_alias_moves = IteratorMethod(AliasMove, models.list_alias_moves)

    get_tree = Method(domains.get_tree)
    list_domains = IteratorMethod(Domain, domains.list_domains)
    create_domain = Method(domains.create_domain)

    list_jobs = IteratorMethod(Job, jobs.list_jobs)
    get_job = Method(jobs.get_job)
    tail_job = IteratorMethod(JobEvent, jobs.tail_job)
    cancel_job = Method(jobs.cancel_job)
    retry_job = Method(jobs.retry_job)

    list_batches = IteratorMethod(Batch, batches.list_batches)
    get_batch = Method(batches.get_batch)
    create_batch = Method(batches.create_batch)
    watch_batch = IteratorMethod(Batch, batches.watch_batch)
    cancel_batch = Method(batches.cancel_batch)
    delete_batch = Method(batches.delete_batch)
    download_batch_results = Method(batches.download_batch_results)
    download_batch_errors = Method(batches.download_batch_errors)

    list_datasets = IteratorMethod(Dataset, files.list_datasets)
    list_corpora = IteratorMethod(Corpus, files.list_corpora)
    upload_file = Method(files.upload_file)
    push_dataset = Method(files.push_dataset)
    push_corpus = Method(files.push_corpus)
