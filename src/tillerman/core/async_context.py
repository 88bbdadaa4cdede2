"""Async context managers that say how they are used when they are used without `async with`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class AsyncContext(Generic[T], AbstractAsyncContextManager[T, bool | None]):
    def __init__(self, call: str, entered: AbstractAsyncContextManager[T, bool | None]) -> None:
        self._call = call
        self._entered = entered

    async def __aenter__(self) -> T:
        return await self._entered.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._entered.__aexit__(kind, error, traceback)

    if not TYPE_CHECKING:  # a type checker must not accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"no attribute {name!r} before it is opened: "
                f"`async with tillerman.{self._call} as harness`"
            )


def opened_with(
    call: str,
) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Like `asynccontextmanager`, for the function that a program calls as `tillerman.CALL`."""

    def decorate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AsyncContext[T]]:
        made = asynccontextmanager(function)

        @wraps(function)
        def opened(*args: P.args, **kwargs: P.kwargs) -> AsyncContext[T]:
            return AsyncContext(call, made(*args, **kwargs))

        return opened

    return decorate
