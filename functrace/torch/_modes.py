"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Each thread and each asyncio task has its own state. Generator functions are wrapped so that the mode holds while they run, and not
while they are suspended.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, TypeVar

from functrace.torch._dtypes import warn
from functrace.torch._missing import as_of

F = TypeVar("F", bound=Callable[..., Any])


def _own(name: str, default: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """How to read and to set a variable of each thread and task; Python 3.14t lets a thread begin with those of the one that starts it."""
    variable: ContextVar[Any] = ContextVar(f"functrace.torch.{name}", default=default)
    if not getattr(sys.flags, "thread_inherit_context", False):
        return variable.get, variable.set

    def get() -> Any:
        owner, value = variable.get((0, default))
        return value if owner == threading.get_ident() else default

    return get, lambda value: variable.set((threading.get_ident(), value))


# True or False as the user says; None: off for a stretch of the library's own code, where traced values stay traced
recording, set_recording = _own("grad_mode", True)  # read by every op
transforms: ContextVar[tuple[Any, ...]] = ContextVar("functrace.torch.transforms", default=())  # those that run: see `_batch.running`
forward_levels: ContextVar[tuple[Any, ...]] = ContextVar("functrace.torch.dual_level", default=())
_inference, _set_inference = _own("inference_mode", False)
depth = 0  # how many `inference_mode` are entered, in any thread: while none is, tensors are made without asking
_lock = threading.Lock()


class Untracked(list[int]):
    """In place of the cell that counts the writes to a tensor: one made in inference mode, which can't be saved for backward."""

    def __getitem__(self, k: Any) -> Any:
        if _inference():
            return 0
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
            "autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
            "instead of `torch.inference_mode()`."
        )

    def __setitem__(self, k: Any, value: Any) -> None:
        pass


def mark(t: Any) -> None:
    """Let a new tensor be one of inference mode, if that is on here."""
    if _inference():
        t._ver = Untracked((0,))


def check_inference(t: Any) -> None:
    """Raise if a tensor may not be written here."""
    if t._ver.__class__ is Untracked and not _inference():
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before "
            "doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
        )


class paused:
    """Recording off (or on) for a stretch of the library's own code."""

    def __init__(self, mode: bool = False) -> None:
        self.mode = mode or None

    def __enter__(self) -> None:
        self.before = recording()
        set_recording(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_recording(self.before)


def is_grad_enabled() -> bool:
    """Whether operations are recorded."""
    return bool(recording())


def is_inference_mode_enabled() -> bool:
    """Whether tensors are made for no gradient."""
    return bool(_inference())


class _Mode:
    """A context manager, and a decorator of functions, generator functions and coroutine functions."""

    mode = True

    def __new__(cls, function: Any = None, **_options: Any) -> Any:
        """Without parentheses, as in `@no_grad`, what the decorator makes of the function."""
        self: Any = object.__new__(cls)
        if not callable(function):
            return self
        self.__init__()
        return self(function)

    def __init__(self) -> None:
        self._previous: list[bool | None] = []

    def __enter__(self) -> None:
        if not self.mode and forward_levels.get():
            raise NotImplementedError(
                "no_grad inside forward_ad.dual_level: tangents follow the recorded graph here, so they would be lost; "
                "use detach() instead."
            )
        self._previous.append(recording())
        set_recording(self.mode and not _inference())

    def __exit__(self, *exc: object) -> None:
        set_recording(self._previous.pop())

    def clone(self) -> _Mode:
        """Another of the same kind, for a decorated function that calls itself."""
        return type(self)()

    def __call__(self, function: F) -> F:
        import inspect

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                inner = function(*args, **kwargs)
                send, given = inner.send, None
                while True:
                    with self.clone():
                        try:
                            item = send(given)
                        except StopIteration as stop:
                            return stop.value
                    try:
                        send, given = inner.send, (yield item)
                    except BaseException as error:  # that it is closed, too
                        send, given = inner.throw, error

            return generator  # type: ignore[return-value]
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with self.clone():
                    return await function(*args, **kwargs)

            return coroutine  # type: ignore[return-value]

        if isinstance(function, type):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate functions or methods. "
                "To preserve the current behavior of class decoration, you can directly decorate the `__init__` method and nothing else.",
                FutureWarning,
            )

        @functools.wraps(function, updated=() if isinstance(function, type) else ("__dict__",))
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return decorated  # type: ignore[return-value]


class no_grad(_Mode):
    """Operations inside are not recorded: their results do not require grad."""

    mode = False


class enable_grad(_Mode):
    """Operations inside are recorded, also within `no_grad`."""

    mode = True


class set_grad_enabled(_Mode):
    """Switch recording on or off, at once; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}")
        self.before = recording()
        self.mode = mode
        set_recording(self.mode)

    def __enter__(self) -> None:
        self._previous.append(self.before)
        set_recording(self.mode)

    def __call__(self, function: F) -> F:
        set_recording(self.before)
        return super().__call__(function)

    def clone(self) -> _Mode:
        """Another of the same kind."""
        mode = no_grad() if not self.mode else enable_grad()
        assert isinstance(mode, _Mode)
        return mode

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"


class inference_mode(_Mode):
    """Like `no_grad`; and the tensors made inside can't be saved for backward, nor written outside."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = not mode

    def __enter__(self) -> None:
        global depth
        before = _inference()
        _set_inference(not self.mode)
        super().__enter__()
        self._previous.append(before)
        with _lock:
            depth += 1

    def __exit__(self, *exc: object) -> None:
        global depth
        with _lock:
            depth -= 1
        _set_inference(bool(self._previous.pop()))
        super().__exit__(*exc)

    def clone(self) -> inference_mode:
        """Another of the same kind."""
        new: inference_mode = type(self)(not self.mode)
        return new


class set_multithreading_enabled(contextlib.nullcontext[bool]):
    """Whether backward uses several threads: it does not here, so this changes nothing."""


as_of("torch.autograd.grad_mode", no_grad, enable_grad, set_grad_enabled, inference_mode)
