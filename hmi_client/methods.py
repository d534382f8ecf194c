"""The methods of both clients, each bound to the flow that defines it."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from functools import cache, wraps
from inspect import Parameter, Signature, iscoroutinefunction, signature
from types import MethodType, NoneType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, get_args, overload

from hmi_client.completions import CompletionDelta
from hmi_client.flow import Flow, T
from hmi_client.operations import (
    batches,
    completions,
    domains,
    files,
    infer,
    jobs,
    models,
    tenants,
    training,
    transfer,
    webhooks,
)
from hmi_client.responses import (
    AliasMove,
    Batch,
    Corpus,
    Dataset,
    Delivery,
    Domain,
    Job,
    JobEvent,
    LoggedRequest,
    Model,
    Version,
    Webhook,
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
        return _bound(self._function(_is_async(owner)), client)

    @cache  # noqa: B019 - methods live as long as their class
    def _function(self, is_async: bool) -> Callable[..., Any]:
        def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self._flow(*args, **kwargs))

        result: Any = get_args(signature(self._flow).return_annotation)[-1]
        result = None if result is NoneType else result
        return _described(method, self._flow, Awaitable[result] if is_async else result)


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
        return _bound(self._function(_is_async(owner)), client)

    @cache  # noqa: B019 - methods live as long as their class
    def _function(self, is_async: bool) -> Callable[..., Any]:
        def method(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return client.iterate(self._flow(*args, **kwargs))

        kind: Any = AsyncIterator if is_async else Iterator
        return _described(method, self._flow, kind[self.item])


def _is_async(owner: type) -> bool:
    return iscoroutinefunction(getattr(owner, "run", None))


def _bound(function: Callable[..., Any], client: Any) -> Any:
    return function if client is None else MethodType(function, client)


def _described(method: Callable[..., Any], flow: Callable[..., Any], result: Any) -> Callable[..., Any]:
    """The method with the name, the docstring and the parameters of the flow, for `help` and for editors."""
    described = wraps(flow)(method)
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    parameters = signature(flow).parameters.values()
    described.__signature__ = Signature([own, *parameters], return_annotation=result)  # type: ignore[attr-defined]
    return described


class ClientMethods:
    """The API's operations as methods of a client."""

    whoami = Method(tenants.whoami)
    get_usage = Method(tenants.get_usage)
    list_requests = IteratorMethod(LoggedRequest, tenants.list_requests)

    infer = Method(infer.infer)
    chat = Method(completions.chat)
    stream_chat = IteratorMethod(CompletionDelta, completions.stream_chat)
    complete = Method(completions.complete)
    stream_completion = IteratorMethod(CompletionDelta, completions.stream_completion)

    list_models = IteratorMethod(Model, models.list_models)
    get_model = Method(models.get_model)
    create_model = Method(training.create_model)
    update_model = Method(training.update_model)
    rename_model = Method(models.rename_model)
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

    export_version = Method(transfer.export_version)
    import_version = Method(transfer.import_version)
    import_adapter = Method(transfer.import_adapter)

    list_webhooks = IteratorMethod(Webhook, webhooks.list_webhooks)
    get_webhook = Method(webhooks.get_webhook)
    create_webhook = Method(webhooks.create_webhook)
    update_webhook = Method(webhooks.update_webhook)
    delete_webhook = Method(webhooks.delete_webhook)
    rotate_webhook_secret = Method(webhooks.rotate_webhook_secret)
    test_webhook = Method(webhooks.test_webhook)
    list_deliveries = IteratorMethod(Delivery, webhooks.list_deliveries)
    replay_delivery = Method(webhooks.replay_delivery)

    list_datasets = IteratorMethod(Dataset, files.list_datasets)
    delete_dataset = Method(files.delete_dataset)
    delete_corpus = Method(files.delete_corpus)
    list_corpora = IteratorMethod(Corpus, files.list_corpora)
    upload_file = Method(files.upload_file)
    push_dataset = Method(files.push_dataset)
    push_corpus = Method(files.push_corpus)
