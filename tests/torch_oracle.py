"""What comes of the calls of `torch_calls` under PyTorch and under functrace.torch, operation by operation.

An operation is a public name of PyTorch that computes: of `torch`, a method of `Tensor`, of `torch.linalg`, `torch.fft`, `torch.special` or
`torch.nn.functional`. Its calls are the rows of its name; a method `x.f(y)` is called as `torch.f(x, y)` is, and `f_` in place, on a copy.
"""

import functools
import warnings

import numpy as np
import torch_calls
import torch_nn_calls

import functrace.torch as ours

try:
    import torch as theirs
except ImportError:
    theirs = None

CASES = torch_calls.CASES + torch_nn_calls.CASES


def call(t, row, arrays, differentiate=True):
    """Run a row; the tensors that were differentiated, and the results."""
    name, *args = row
    kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
    function = args.pop(0) if args and callable(args[0]) else None
    leaves = []

    def tensor(x):
        if isinstance(x, (list, tuple)) and any(isinstance(y, np.ndarray) for y in x):
            return type(x)(tensor(y) for y in x)
        if not isinstance(x, np.ndarray):
            return x
        made = arrays(x)
        if differentiate and x.dtype.kind in "fc" and x.flags.writeable:
            made.requires_grad_()
            leaves.append(made)
        return made

    args = [tensor(x) for x in args]
    kwargs = {k: getattr(t, v) if k == "dtype" else tensor(v) for k, v in kwargs.items()}
    if function is not None:
        return leaves, function(t, *args, **kwargs)
    if name.startswith("."):
        return leaves, getattr(args[0], name[1:])(*args[1:], **kwargs)
    for part in name.split("."):
        t = getattr(t, part)
    return leaves, t(*args, **kwargs)


def flat(out):
    return [x for y in out for x in flat(y)] if isinstance(out, (list, tuple)) else [out]


def weights(a, k):
    w = np.cos(np.arange(a.size) + k).reshape(a.shape)
    return (w + 1j * w[..., ::-1] if w.ndim and a.dtype.kind == "c" else w).astype(a.dtype)


def plain(x):
    return x.detach().numpy(force=True) if hasattr(x, "detach") else x


def objective(t, outs, k):
    """A real number that depends on all results."""
    total = 0
    for x in outs:
        if x.requires_grad:
            part = (x * t.from_numpy(weights(np.asarray(plain(x)), k))).sum()
            total = total + (part.real if x.is_complex() else part)
    return total


def derivatives(t, leaves, outs, k=1):
    """First and second derivatives of a number that depends on all results: arrays, None where there is nothing, or the error's text."""
    try:
        goal = objective(t, outs, k)
        if not hasattr(goal, "requires_grad"):
            return None, None
        first = t.autograd.grad(goal, leaves, create_graph=True, allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return str(error), None
    second = None
    goal = objective(t, [g for g in first if g is not None], 2)
    if hasattr(goal, "requires_grad"):
        try:
            second = [None if g is None else plain(g) for g in t.autograd.grad(goal, leaves, allow_unused=True)]
        except (RuntimeError, NotImplementedError) as error:
            second = str(error)
    return [None if g is None else plain(g) for g in first], second


def same(what, got, want, rtol=1e-6, atol=1e-9):
    assert len(got) == len(want), what
    for k, (a, b) in enumerate(zip(got, want)):
        if a is None or b is None:
            a, b = (np.zeros(()) if x is None else x for x in (a, b))  # nothing and zero are both right
        elif isinstance(b, np.ndarray):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), (what, a.shape, a.dtype, b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=f"{what} {k}")


SPACES = ("", "Tensor", "linalg", "fft", "special", "nn.functional")
OUTSIDE = {  # what is there but computes nothing that has a derivative, and has tests of its own
    "makes tensors": "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_strided eye from_dlpack from_numpy frombuffer full "
    "full_like hamming_window hann_window kaiser_window linspace load logspace ones ones_like range scalar_tensor tensor zeros zeros_like new_empty "
    "new new_full new_ones new_tensor new_zeros BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor Tensor",
    "draws numbers": "Generator cauchy_ exponential_ geometric_ get_rng_state initial_seed log_normal_ manual_seed multinomial rand rand_like randint "
    "randint_like randn randn_like random_ randperm seed set_rng_state uniform_",
    "asks": "Size can_cast data_ptr device dim dtype element_size finfo get_device iinfo is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_enabled is_coalesced "
    "is_conj is_contiguous is_floating_point is_grad_enabled is_inference is_inference_mode_enabled is_neg is_nonzero is_pinned is_same_size is_set_to "
    "is_shared is_signed is_tensor item layout memory_format ndimension nelement numpy promote_types result_type size storage_offset stride to_dlpack "
    "tolist typename is_storage storage untyped_storage",
    "sets, or steers": "are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled as_subclass backward compile cuda enable_grad get_default_device get_default_dtype "
    "get_float32_matmul_precision get_num_interop_threads get_num_threads inference_mode no_grad pin_memory register_hook "
    "register_post_accumulate_grad_hook requires_grad_ resize_ resize_as_ retain_grad save set_ set_default_device set_default_dtype set_default_tensor_type "
    "set_float32_matmul_precision set_grad_enabled set_num_interop_threads set_num_threads set_printoptions share_memory_ use_deterministic_algorithms vmap xpu",
}  # fmt: skip
DIFFERS = {  # operations, and how many of their calls give something else: each is a row of `DIFFERENCES` in docs/parity.py
    **{f"Tensor.logical_{name}_": 2 for name in ("and", "not", "or", "xor")}, "as_strided_scatter": 2, "Tensor.as_strided_scatter": 2,
    "Tensor.addbmm_": 1, "nn.functional.ctc_loss": 1, "linalg.pinv": 5,
    **{f"{space}cholesky_{name}": 2 for name in ("inverse", "solve") for space in ("", "Tensor.")},
}  # fmt: skip
# PyTorch composes these of others, whose names vary with the arguments; or their names differ in place.
LOOSE = set(torch_calls.words("einsum trapezoid trapz cumulative_trapezoid corrcoef copysign narrow_copy repeat_interleave unsafe_chunk unsafe_split "
  "index_fill eig scatter lstsq xlogy ndtr ifft ihfft2 ihfftn stft istft t_ conj_physical eq_ ne_ lt_ le_ gt_ ge_ greater_ less_ not_equal_ greater_equal_ "
  "less_equal_ transpose_ swapaxes_ swapdims_ squeeze_ unsqueeze_ as_strided_ atleast_1d atleast_2d atleast_3d cond matrix_norm matrix_power xlog1py "
  "unsafe_split_with_sizes polygamma_ ormqr frobenius_norm norm_except_dim fill bernoulli_ normal_ H mH copy_ fill_diagonal_ pairwise_distance instance_norm "
  "multilabel_soft_margin_loss pad conv_tbc"))  # fmt: skip
UNTOLD = ("modified by an inplace", "not implemented", "ZeroTensor", "invalid gradient")  # where PyTorch gives up, and we need not
DIFFERENT_METHODS = ("real", "imag", "where")


def _space(t, space):
    for part in filter(None, space.split(".")):
        t = getattr(t, part)
    return t


def _in_place(name, space):
    def f(t, x, *args, **kwargs):
        y = x.clone()
        out = getattr(y, name)(*args, **kwargs) if space == "Tensor" else getattr(_space(t, space), name)(y, *args, **kwargs)
        assert out is y
        return y

    return f


@functools.cache
def operations():
    """{name: its rows} of all that there is a sample call of."""
    found = {}

    def enter(space, name, row, most=4):
        rows = found.setdefault(f"{space}.{name}".lstrip("."), [])
        if len(rows) < most:
            rows.append(row)

    for name, *args in [*CASES, *((alias, *row[1:]) for alias, name in torch_calls.ALIASES.items() for row in CASES if row[0] == name)]:
        space, _, base = name.rpartition(".")
        enter("Tensor" if name[0] == "." else space, base, (name, *args), 1000)
        if name[0] == "." or callable(args[0]) or not isinstance(args[0], np.ndarray):
            continue
        if hasattr(_space(theirs, space), base + "_"):
            enter(space, base + "_", (name + "_", _in_place(base + "_", space), *args))
        if not space and hasattr(theirs.Tensor, base) and base not in DIFFERENT_METHODS:
            enter("Tensor", base, ("." + base, *args))
        if not space and hasattr(theirs.Tensor, base + "_"):
            enter("Tensor", base + "_", (base + "_", _in_place(base + "_", "Tensor"), *args))
    return found


def outcome(t, row, cast=np.copy):
    """Values, names of the nodes, first and second derivatives; or the error."""
    t.manual_seed(1)
    try:
        leaves, out = call(t, row, lambda x: t.from_numpy(cast(x)))
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError, AttributeError, AssertionError) as error:
        return error
    outs = [x for x in flat(out) if x is not None]
    nodes = [x.grad_fn.name() if getattr(x, "requires_grad", False) and x.grad_fn else None for x in outs]
    return [plain(x) for x in outs], nodes, *derivatives(t, leaves, [x for x in outs if hasattr(x, "requires_grad")])


def verdict(row):
    """What came of a row: "agrees", "no derivative" in PyTorch, "raises" with its name. All else is an AssertionError."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want, got = outcome(theirs, row), outcome(ours, row)
    base = row[0].rpartition(".")[2]
    if isinstance(want, Exception):
        assert isinstance(got, Exception) or any(text in str(want) for text in UNTOLD), f"PyTorch raises {want}"
        assert base[-1] == "_" or isinstance(got, NotImplementedError), f"not a sample: {want}"
        return "no derivative"
    if isinstance(got, Exception):
        assert isinstance(got, NotImplementedError) and base.rstrip("_") in str(got), repr(got)
        return "raises"
    same("value", got[0], want[0])
    if isinstance(want[2], str) or want[2] is None:
        return "no derivative"
    assert isinstance(got[2], list), got[2]
    same("gradient", got[2], want[2])
    if isinstance(want[3], list):
        assert not isinstance(got[3], str), got[3]
        mine = got[3] or [None] * len(want[3])
        known = [None if b is None else np.where(np.isnan(b), 0, b) for b in want[3]]
        mine = [
            a if a is None or b is None else np.where(np.isnan(b), 0, a) for a, b in zip(mine, want[3])
        ]  # 0 or inf where PyTorch has NaN
        same("second derivative", mine, known, 1e-5, 1e-7)
    assert got[1] == want[1] or not LOOSE.isdisjoint((base, base.rstrip("_"))) or base.endswith("_copy"), ("nodes", got[1], want[1])
    return "agrees"


def _told(name, rows):
    """What came of an operation, and what is wrong with it."""
    found, wrong = [], []
    for k, row in enumerate(rows):
        try:
            found.append(verdict(row))
        except AssertionError as error:
            wrong.append(f"{name}, call {k}: {' '.join(str(error).split())[:300]}")
    if len(wrong) == DIFFERS.get(name, 0):
        wrong = []
    if len(rows) < 2:
        wrong.append(f"{name}: a second sample call is wanted")
    if "raises" in found:
        return "raises", wrong
    return "differs" if name in DIFFERS else "agrees" if "agrees" in found else "no derivative", wrong


def _missing(name):
    """What is wrong with a name that has no sample call: one that is not here must say so."""
    space, _, base = name.rpartition(".")
    if base in {x for names in OUTSIDE.values() for x in names.split()} | {"zero_"}:
        return []
    try:
        getattr(ours.Tensor if space == "Tensor" else _space(ours, space), base)
    except NotImplementedError as error:
        return [] if base in str(error) else [f"{name}: its error does not name it: {error}"]
    except AttributeError as error:
        return [] if space == "Tensor" and base in str(error) else [f"{name}: {error!r}"]
    return [f"{name}: sample calls are wanted"]


@functools.cache
def survey():
    """{"agrees": [names], "differs": ..., "raises": ..., "no derivative": ...} of all PyTorch's public operations, and what is wrong."""
    from docs.parity import public_names

    told, wrong = {k: [] for k in ("agrees", "differs", "raises", "no derivative")}, []
    every = operations()
    for space in SPACES:
        for base in sorted(public_names(space) | {name.rpartition(".")[2] for name in every if name.rpartition(".")[0] == space}):
            name = f"{space}.{base}".lstrip(".")
            if name in every:
                kind, faults = _told(name, every[name])
                told[kind].append(name)
                wrong += faults
            else:
                wrong += _missing(name)
    return told, wrong
