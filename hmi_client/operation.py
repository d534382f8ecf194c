"""Methods that both clients have, each described once, as a flow."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from hmi_client.steps import Flow

if TYPE_CHECKING:
    from hmi_client.client import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


class Operation(Generic[P, T]):
    """Called on a client, gives the flow's result; on an asynchronous one, an awaitable of it."""

    def __init__(self, flow: Callable[P, Flow[T]]) -> None:
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._flow

        @wraps(self._flow)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self._flow(*args, **kwargs))

        return method


class Listing(Generic[P, T]):
    """Called on a client, iterates over what the flow gives; on an asynchronous one, asynchronously."""

    def __init__(self, item: type[T], flow: Callable[P, Flow[None]]) -> None:
        self.item = item
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: "Client", owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: "AsyncClient", owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._flow

        @wraps(self._flow)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.each(self._flow(*args, **kwargs))

        return method
