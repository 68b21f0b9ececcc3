"""Names that are imported when they are used, and the one error for names of PyTorch that are not here."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Container, Mapping
from types import FunctionType, ModuleType
from typing import Any

from functrace.torch._contact import boundary, is_user_file

_NOW_IN_LINALG = {
    "eig": "eig",
    "gels": "lstsq",
    "lstsq": "lstsq",
    "matrix_rank": "matrix_rank",
    "potrf": "cholesky",
    "solve": "solve",
    "symeig": "eigh",
}
_INSTEAD = {
    "jit": "run the function as it is, or compile a NumPy function with functrace.jit",
    "sparse": "use dense tensors, or scipy.sparse with functrace",
    **dict.fromkeys(("quantization", "ao", "bfloat16", "BFloat16Tensor"), "use float32"),
    "onnx": "save the state_dict with torch.save",
    "multiprocessing": "use Python's multiprocessing",
    "futures": "use Python's concurrent.futures",
    "mps": "use the CPU",
    "nested": "pad to one length, with a mask",
    "masked": "use torch.where, with a mask",
    "fx": "draw or print a function's tape with functrace.trace",
    "xpu": "use the CPU",
    "export": "save the state_dict with torch.save",
    "hub": "download the file, and read it with torch.load",
    "profiler": "use Python's cProfile",
    "tensorboard": "write what is to be seen with Python's csv or json",
    "torchaudio": "read sound with scipy.io.wavfile",
    "torchtext": "read text with Python",
    "torchvision": "use scikit-learn's data sets, or NumPy arrays of images",
    "cond": "use Python's if",
    "load_library": "write the operation as an autograd.Function",
    **{name: f"PyTorch too has only torch.linalg.{now}" for name, now in _NOW_IN_LINALG.items()},
    **dict.fromkeys(("rfft", "irfft", "ifft"), "PyTorch too has it only in torch.fft"),
}
FOREACH = """
    add add_ sub sub_ mul mul_ div div_ lerp lerp_ addcmul addcmul_ addcdiv addcdiv_ pow pow_ clamp_min clamp_min_ clamp_max
    clamp_max_ maximum maximum_ minimum minimum_
    neg neg_ abs abs_ sqrt sqrt_ rsqrt rsqrt_ exp exp_ log log_ sign sign_ reciprocal reciprocal_ norm copy_ zero_
""".split()


def answer(value: Any) -> Callable[..., Any]:
    """A function that returns this, whatever it is asked."""
    return lambda *_args, **_kwargs: value


def as_of(module: str, *classes: type) -> None:
    """Let classes say of themselves that they are of a module of PyTorch's."""
    for cls in classes:
        cls.__module__ = module


def own_init(cls: type, **defaults: Any) -> None:
    """Give a class the `__init__` that it inherits as its own, with other `defaults` for some parameters: Python's complaints about
    arguments go by the name of the class.
    """
    init: Any = cls.__init__  # type: ignore[misc]
    if "__init__" in cls.__dict__ or not isinstance(init, FunctionType):
        return
    names, usual = init.__code__.co_varnames[: init.__code__.co_argcount], init.__defaults__ or ()
    given = tuple([defaults.get(k, x) for k, x in zip(names[len(names) - len(usual) :], usual)])
    mine = FunctionType(init.__code__, init.__globals__, "__init__", given, init.__closure__)
    mine.__kwdefaults__, mine.__annotations__, mine.__qualname__ = init.__kwdefaults__, init.__annotations__, f"{cls.__qualname__}.__init__"
    cls.__init__ = mine  # type: ignore[misc]


REQUIRED = inspect.Parameter.empty


def init_from_options(cls: Any, options: Mapping[str, Any], build: Callable[[Any, Any], None], keywords: Container[str] = ()) -> None:
    """Give a class an `__init__` that takes options with these defaults, `keywords` by name only, and hands a dict of them to `build`."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([inspect.Parameter(k, kinds[k in keywords], default=v) for k, v in options.items()])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.__init__() {error}") from None
        given.apply_defaults()
        build(self, given.arguments)

    whole = [inspect.Parameter("self", kinds[0]), *signature.parameters.values()]
    __init__.__signature__ = signature.replace(parameters=whole)  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = __init__


class Pickled:
    """What is pickled as of the module where its class is found, and not where PyTorch has it, which the class says of itself."""

    _found_in: str

    def __reduce_ex__(self, protocol: Any) -> Any:
        if type(self).__module__.startswith("torch."):
            return _found, (self._found_in, type(self).__name__), *super().__reduce_ex__(2)[2:]
        return super().__reduce_ex__(protocol)


def _found(home: str, name: str) -> Any:
    return object.__new__(getattr(importlib.import_module(home), name))


class MissingNameError(AttributeError, NotImplementedError):
    """A name of PyTorch that `functrace.torch` does not have."""


def in_place_of(name: str) -> str:
    """The end of an error about a name, dotted or not, that is not here: what to use in its place."""
    last = name.rpartition(".")[2]
    parts = [part for part in name.split(".") if part in _INSTEAD]
    if "sparse" in last or last in ("coalesce", "indices", "values", "to_dense"):
        parts = ["sparse"]
    advice = _INSTEAD[parts[0]] if parts else "write it with the operations that are here, or in NumPy as an autograd.Function"
    return f"in functrace.torch, which does not have all of PyTorch: {advice}"


def missing(module: str, lazy: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a module: `lazy` says in which of its submodules names are to be found; it says of others what is missing.

    A name that is itself a submodule stands for it.
    """

    @boundary
    def __getattr__(name: str) -> Any:
        if name == "__all__":  # for `from torch.nn import *`
            here = {**(lazy or {}), **sys.modules[f"functrace.{module}"].__dict__}
            return [n for n, x in here.items() if n[0] != "_" and not (module == "torch" and (x is n or isinstance(x, ModuleType)))]
        where = (lazy or {}).get(name)
        if where is None:
            from difflib import get_close_matches

            space = sys.modules[f"functrace.{module}"]
            names = {n.lower(): n for n in dir(space)}
            near = get_close_matches(name.lower(), names, 1, 0.8) if len(name) > 3 and name not in _INSTEAD else []
            meant = f"; or did you mean {module}.{names[near[0]]}?" if near else ""
            text = f"module '{module}' has no attribute '{name}' {in_place_of(f'{module}.{name}')}{meant}"
            raise MissingNameError(text, name=name, obj=space)
        found = importlib.import_module(f"functrace.{module}.{where}")
        package, last = sys.modules[f"functrace.{module}"].__dict__, where.rpartition(".")[2]
        if last in (lazy or {}) and module != "torch":
            package[last] = getattr(found, last, found)  # `autograd.gradcheck` is a function in a module of that name
        value = package[name] = package[last] if last == name else getattr(found, name, found)
        return value

    return __getattr__


def names(**modules: str) -> dict[str, str]:
    """`module="a b"` as {"a": "module", "b": "module"}, and the module itself."""
    return {name: module for module, listed in modules.items() for name in (module, *listed.split())}


def no_methods(cls: Any) -> None:
    """Make operations of ours static methods where they are attributes of a class of the program's: PyTorch's do not bind to `self`."""
    if cls.__module__.partition(".")[0] in ("torch", "functrace"):
        return
    for name, x in list(vars(cls).items()):
        ours = type(x) is FunctionType and str(x.__module__).startswith("functrace.torch") and "." not in x.__qualname__
        if ours and not is_user_file[x.__code__.co_filename]:  # nor a wrapper of the program's, with the name of what it wraps
            setattr(cls, name, staticmethod(x))
