"""Methods that both clients have, each described once, as a flow."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, overload

from hmi_client.flow import Flow, T

P = ParamSpec("P")


class Blocking(Protocol):
    """A client whose methods return once the server has answered."""

    def run(self, flow: Flow[T]) -> T:
        """Carry a flow out, and return its result."""

    def each(self, flow: Flow[None]) -> Iterator[Any]:
        """Carry a flow out as far as the caller iterates."""


class Awaited(Protocol):
    """A client whose methods are awaited."""

    async def run(self, flow: Flow[T]) -> T:
        """Carry a flow out, and return its result."""

    def each(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Carry a flow out as far as the caller iterates."""


class Operation(Generic[P, T]):
    """Called on a client, gives the flow's result; on an asynchronous one, an awaitable of it."""

    def __init__(self, flow: Callable[P, Flow[T]]) -> None:
        self._flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, client: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, Awaitable[T]]: ...
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
    def __get__(self, client: Blocking, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Awaited, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._flow

        @wraps(self._flow)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.each(self._flow(*args, **kwargs))

        return method
