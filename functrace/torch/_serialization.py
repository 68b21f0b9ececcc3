"""`torch.save` and `torch.load`: PyTorch's zip files, readable both ways.

A file holds a pickle, in which tensors refer to storages, and the bytes of each storage. `load` builds nothing but containers,
numbers, strings and tensors, unless `weights_only=False` says that the file is trusted.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from functrace.torch import _dtypes
from functrace.torch._contact import Tracer
from functrace.torch._layout import memory
from functrace.torch._missing import _found
from functrace.torch._tensor import Tensor, wrap

MAP_LOCATION = Any  # for hints
_HERE = __name__
_STORAGES = {
    d.storage.replace("Tensor", "Storage"): d for d in set(_dtypes.NAMES.values()) if not d.name.startswith("uint") or d.name == "uint8"
}
_NAMES = {d: name for name, d in _STORAGES.items()}
_safe: dict[str, Any] = {}
_OLD_NAMES = {"__builtin__": "builtins", "exceptions": "builtins", "copy_reg": "copyreg"}  # protocol 2 writes Python 2's


class _Storage:
    """The memory of one or more tensors: a flat array."""

    def __init__(self, flat: Any) -> None:
        self.flat = flat


def _rebuild_tensor_v2(storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any, metadata: Any = None) -> Any:
    flat = storage.flat
    need = offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1 if all(size) else 0
    if offset < 0 or any(s < 0 for s in stride) or need > flat.size:
        raise pickle.UnpicklingError(f"a tensor of size {tuple(size)} does not fit the {flat.size} elements of its storage")
    a = np.lib.stride_tricks.as_strided(flat[offset:], tuple(size), [s * flat.itemsize for s in stride])
    t = wrap(a)
    t._rg = bool(requires_grad)
    return t


def _rebuild_parameter(data: Any, requires_grad: bool, hooks: Any) -> Any:
    from functrace.torch.nn import Parameter

    return Parameter(data, requires_grad)


def _rebuild_array(data: Any, dtype: str, size: Any, requires_grad: bool) -> Any:
    return wrap(np.frombuffer(bytearray(data), _dtypes.NAMES[dtype].np).reshape(size)).requires_grad_(requires_grad)


class _Type:
    """What a file calls `torch.FloatStorage`, which a persistent id names; beginning with _OURS: `torch.float32`, `torch.Size`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype: Any = _STORAGES.get(name)

    def __reduce__(self) -> str:
        return self.name

    def __call__(self) -> None:
        """Nothing: for pickle, which asks whether it can be called."""


_OURS = "_torch_"
_DTYPES = _dtypes.NAMES | _dtypes.NAMED
_WRITTEN = dict.fromkeys((*_STORAGES, *(_OURS + name for name in (*_DTYPES, "Size", "device"))), "torch")
globals().update({name: _Type(name) for name in _WRITTEN})
_WRITTEN |= dict.fromkeys(("_rebuild_tensor_v2", "_rebuild_parameter"), "torch._utils")


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, _Storage):
            return None
        root = obj.flat
        address = root.__array_interface__["data"][0]
        key, _ = self.storages.setdefault(address, (str(len(self.storages)), root))
        return "storage", globals()[_NAMES[_dtypes.of(root.dtype)]], key, "cpu", root.size

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _dtypes.dtype):
            return globals()[_OURS + obj.name], ()
        if isinstance(obj, (_dtypes.Size, _dtypes.device)):
            return globals()[_OURS + type(obj).__name__], obj.__reduce__()[1]
        if not isinstance(obj, Tensor) or type(obj).__name__ == "UninitializedParameter":
            return NotImplemented
        if isinstance(obj._a, Tracer):
            raise RuntimeError("torch.save: a tensor of a running transform can't be saved; save what the transform returns.")
        if type(obj).__name__ == "Parameter":
            return _rebuild_parameter, (wrap(obj._a), obj._rg, OrderedDict())
        if obj.dtype not in _NAMES:
            return _rebuild_array, (obj._a.tobytes(), obj.dtype.name, tuple(obj._a.shape), obj._rg)
        flat, offset, strides = memory(obj._a)
        return _rebuild_tensor_v2, (_Storage(flat), offset, tuple(obj._a.shape), strides, obj._rg, OrderedDict())


def save(obj: Any, f: Any, pickle_module: Any = pickle, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True) -> None:
    """Write an object, tensors inside it, to a file: a path or a binary file."""
    if not _use_new_zipfile_serialization:
        raise NotImplementedError("torch.save: the format of before PyTorch 1.6 is not written; leave out _use_new_zipfile_serialization.")
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, 2)
    pickler.dump(obj)
    path = isinstance(f, (str, os.PathLike))
    name = os.path.splitext(os.path.basename(os.fspath(f)))[0] if path else "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", _renamed(buffer.getvalue()))
        archive.writestr(f"{name}/byteorder", "little")
        for key, flat in pickler.storages.values():
            archive.writestr(f"{name}/data/{key}", flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes())
        archive.writestr(f"{name}/version", "3\n")


def _renamed(data: bytes) -> bytes:
    """The pickle with PyTorch's names for what has been pickled as ours; dtypes, pickled as calls, are names there."""
    parts, done, call = [], 0, False
    for op, arg, place in pickletools.genops(data):
        if call and place is not None and op.name in ("EMPTY_TUPLE", "REDUCE"):
            parts.append(data[done:place])
            done, call = place + 1, op.name != "REDUCE"
        elif op.name == "GLOBAL" and isinstance(arg, str) and arg.startswith(_HERE + " "):
            name = arg.split(" ")[1]
            if place is not None and name in _WRITTEN:
                plain = name.removeprefix(_OURS)
                parts += [data[done:place], f"c{_WRITTEN[name]}\n{plain}\n".encode()]
                done, call = place + len(arg) + 2, plain in _DTYPES
    return b"".join([*parts, data[done:]])


_NOT_THERE = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a "
    "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: str, safe: bool, to_cpu: bool) -> None:
        super().__init__(file)
        self.archive, self.folder, self.safe, self.to_cpu = archive, folder, safe, to_cpu
        self.storages: dict[str, _Storage] = {}

    def persistent_load(self, pid: Any) -> Any:
        what, kind, key, location, numel = pid
        if what != "storage" or not isinstance(kind, _Type):
            raise pickle.UnpicklingError(f"torch.load: unknown persistent id {what!r}")
        if location != "cpu" and not self.to_cpu:
            raise RuntimeError(_NOT_THERE)
        if key not in self.storages:
            raw = self.archive.read(f"{self.folder}/data/{key}")
            order = self.archive.read(f"{self.folder}/byteorder") if f"{self.folder}/byteorder" in self.archive.namelist() else b"little"
            dtype = kind.dtype.np.newbyteorder(">" if order == b"big" else "<")
            flat = np.frombuffer(bytearray(raw), dtype).astype(kind.dtype.np, copy=False)
            if flat.size < numel:
                raise pickle.UnpicklingError(f"torch.load: storage {key} has {flat.size} elements, the file says {numel}")
            self.storages[key] = _Storage(flat[:numel])
        return self.storages[key]

    def find_class(self, module: str, name: str) -> Any:
        found = _allowed(_OLD_NAMES.get(module, module), "range" if name == "xrange" else name)
        if found is not None:
            return found
        if self.safe:
            return self._made if (module, name) == (_found.__module__, _found.__name__) else self._refuse(module, name)
        return super().find_class(f"functrace.{module}" if module.split(".", maxsplit=1)[0] == "torch" else module, name)

    def _made(self, home: str, name: str) -> Any:
        """An instance of one of our classes, which a file names by the module where it is found."""
        made = _found(home, name) if home.startswith("functrace.torch.") else self._refuse(home, name)
        return made if f"{type(made).__module__}.{name}" in _safe else self._refuse(type(made).__module__, name)

    def _refuse(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. If you trust "
            "the source of the checkpoint, load it with `weights_only` set to `False`, which can result in arbitrary code execution; "
            f"or use `torch.serialization.add_safe_globals([{name}])` to allowlist this global."
        )


def _allowed(module: str, name: str) -> Any:
    """What a file may name: no more than containers, numbers and tensors are made of."""
    key = f"{module}.{name}"
    if key in _safe:
        return _safe[key]
    if module in ("torch._utils", _HERE) and name in ("_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_array"):
        return globals()[name]
    if module == "torch":
        return {"Size": _dtypes.Size, "device": _dtypes.device, **{k: globals()[k] for k in _STORAGES}, **_DTYPES}.get(name)
    if module == "functrace.torch._dtypes" and name in ("_by_name", "_to_size"):
        return getattr(_dtypes, name)
    if module == "collections":
        return {"OrderedDict": OrderedDict, "defaultdict": defaultdict, "Counter": Counter}.get(name)
    if module == "builtins":
        return {"set": set, "frozenset": frozenset, "bytearray": bytearray, "complex": complex, "slice": slice, "range": range}.get(name)
    return {"_codecs.encode": _encode}.get(key)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    return text.encode("latin1")  # how protocol 2 writes bytes


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` wrote, or PyTorch. No code of the file's choosing is run, unless `weights_only=False`.

    Raises pickle.UnpicklingError for what is not containers, numbers, strings and tensors.
    """
    if pickle_module not in (None, pickle) or pickle_load_args:
        raise NotImplementedError("torch.load: pickle_module and further arguments of an unpickler are not taken.")
    if isinstance(map_location, (str, _dtypes.device)) and _dtypes.device(map_location).type not in ("cpu", "meta"):
        raise RuntimeError(_NOT_THERE)
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile:
        raise pickle.UnpicklingError(
            "torch.load: not a file of torch.save (or of a PyTorch before 1.6, whose files are not read)."
        ) from None
    with archive:
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if not pickles:
            raise RuntimeError("torch.load: the archive has no data.pkl: it is no file of torch.save (TorchScript is not read).")
        folder = pickles[0].rpartition("/")[0]
        return _Unpickler(io.BytesIO(archive.read(pickles[0])), archive, folder, weights_only, map_location is not None).load()


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let `load` build instances of these classes, and call these functions."""
    for item in safe_globals:
        value, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        _safe[name] = value


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    _safe.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """`add_safe_globals` for the length of a `with`."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)
