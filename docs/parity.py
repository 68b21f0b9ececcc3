"""Writes `docs/parity.md`, PyTorch's names against those of functrace.torch: `python -m docs.parity`. It needs PyTorch, to list them."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("parity.md")
MODULES = (
    "",
    "Tensor",
    "linalg",
    "fft",
    "special",
    "nn.functional",
    "nn",
    "nn.init",
    "optim",
    "optim.lr_scheduler",
    "autograd",
    "func",
    "utils.data",
    "distributions",
    "testing",
)

_HEAD = """# functrace.torch and PyTorch {version}

<!-- Written by `python -m docs.parity`. Don't edit. -->

A script that uses CPU tensors should run unchanged: names, keywords, dtypes, error texts, `grad_fn` names, gradients and random
numbers are PyTorch's, and the tests compare them with it. This page lists which names are here, which are not and why, and what
differs.

{table}
Not counted are names that begin with an underscore, modules, and classes of PyTorch's compiler. A name that is not here raises
`MissingNameError`.

{agreement}

## Differences

| where | what differs | why |
|---|---|---|
"""

DIFFERENCES = (
    ("`as_strided_scatter`", "the gradient of `input`", "PyTorch's fails its own gradcheck; ours is the derivative"),
    ("`cholesky_solve`, `cholesky_inverse`", "the gradient lies in the triangle that is read; PyTorch's has entries in the other, too",
     "PyTorch's fails its own gradcheck; of a factor that `cholesky` made they agree"),
    ("`scatter`, `index_put`, `index_copy`, `put` with an index that repeats", "only the element written last gets a gradient; PyTorch "
     "gives one to all", "the others do not reach the result"),
    ("`scatter_reduce`, `index_reduce` with `amax`, `amin` and `include_self=False`", "the excluded element never shares the gradient of a "
     "tie", "it does not take part"),
    ("`norm`, `dist`, `sgn` at 0; `pow` with a zero base", "second derivatives are 0 or infinite where PyTorch's are NaN", "the "
     "conventions of functrace"),
    ("`logical_and_`, `logical_or_`, `logical_xor_`, `logical_not_`, on a tensor that requires grad", "the gradient is 0; PyTorch forgets "
     "the write and lets it through", "the result does not depend on it"),
    ("`asinh_`, `acosh_`, `atanh_` in place; `igamma` in its first argument; Bessel functions, Airy's, and orthogonal polynomials in "
     "`special`", "have derivatives, PyTorch's have none", "functrace.scipy has them"),
    ("`lgamma`, `digamma`, `erfinv` and most of `special`", "need SciPy: `pip install 'functrace[scipy]'`", "NumPy has no such functions"),
    ("`conj`, `adjoint`, `mH` of complex tensors", "are copies, not lazy views; `is_conj()` is False", "NumPy has no lazy conjugate"),
    ("`median(dim)`, `mode`, `kthvalue`, `topk`, `sort` without `stable`", "of equal elements another may be chosen", "PyTorch's choice "
     "depends on the algorithm"),
    ("`grad_fn` of `einsum`, `trapezoid`, `corrcoef`, `repeat_interleave`", "one node; "
     "PyTorch composes these of several, and the last one's name varies", "one operation here"),
    ("`cholesky_ex`, `inv_ex`, `solve_ex` of a matrix that fails", "NaN beside the same `info`; PyTorch leaves what LAPACK had got to",
     "what it got to depends on the LAPACK"),
    ("singular values, and what rests on them, of a matrix with infinities", "raise as those of NaN do; PyTorch's are NaN or 0",
     "NumPy's LAPACK may not return from them"),
    ("`from_dlpack` of a capsule", "gives a tensor that can't be written to", "NumPy takes such memory for read-only"),
    ("`linalg.lstsq`", "is the pseudo-inverse times B; `driver` only decides which other results there are", "one method is enough"),
    ("signs and phases of `svd`, `eigh`, `eig`, `qr`", "are LAPACK's as NumPy calls it", "each is as good; gradients that depend on them "
     "are refused or agree"),
    ("`bernoulli_(p)`, dropout and `exponential_` on Intel CPUs", "PyTorch draws them from MKL's own generator there; ours are the numbers "
     "of all other CPUs", "it was established on other CPUs"),
    ("`log_normal_`", "equal to rounding, not bit for bit", "another exponential function"),
    ("gradients of samples of `Gamma`, `Beta`, `Dirichlet`, `Chi2`, `StudentT`, `FisherSnedecor`",
     "agree to three digits; theirs are ours to rounding",
     "PyTorch approximates the derivative of the distribution function, functrace.scipy has it"),
    ("`ContinuousBernoulli` of a probability outside of [0, 1], `LowRankMultivariateNormal` of a negative variance", "raise ValueError, as "
     "other distributions do; PyTorch clips the one and fails in a decomposition for the other", "errors come first"),
    ("classes of `torch.distributions`", "live in fewer modules; the names of PyTorch's modules stand for them", "fewer files"),
    ("bfloat16 and float8", "have a name and limits; tensors in them, and `autocast` on the CPU, raise", "NumPy does not have them"),
    ("quantised, sparse, nested and complex32 dtypes", "are not here; float16 with a complex number gives complex64",
     "NumPy does not have them"),
    ("`Tensor.numpy()` of a tensor that requires grad", "gives a read-only array; PyTorch raises", "nothing can go wrong"),
    ("NumPy's functions and operators on tensors", "give tensors, with their history", "PyTorch leaves some of them to NumPy"),
    ("tensors made on `mps` and other devices that are not there", "raise RuntimeError; PyTorch NotImplementedError, with a list of what "
     "it was compiled for", "there is only the CPU"),
    ("tensors on the device `meta`", "have a shape, a dtype and a device, and can be initialised; any operation on them raises",
     "models are put there for their structure"),
    ("functions without a PyTorch-like number of arguments", "the TypeError is Python's, shorter than PyTorch's list of signatures",
     "there are no overloads"),
    ("`sin`, `exp`, `tanh` and the like in float32", "the last digit may differ from PyTorch's", "PyTorch takes them from "
     "Intel's library, whose last digit depends on the processor; ours are rounded from float64 up to 16 000 elements"),
    ("`interpolate` of bytes, bilinear and bicubic", "differs by 1 here and there, rarely by 2", "PyTorch's weights have 16 bits"),
    ("`grad_fn` of RNN, LSTM and GRU", "is the last operation of the unrolled loop; PyTorch has one node for a layer on some processors",
     "they are loops here"),
    ("printing a tensor inside of `vmap`, `grad` and the like", "`bdim` is 0; what has no history, such as `x > 0` inside of `grad`, "
     "has no GradTrackingTensor round it", "there are no wrappers here; they are printed"),
    ("`bool`, `item` of a tensor inside of `vmap`, where all examples agree", "is what they agree on; PyTorch raises",
     "where they differ it raises PyTorch's error"),
    ("`grad_fn` of results of `vmap`", "is `VmapBackward0`; PyTorch's is the last operation's", "the graph runs through it"),
    ("zeros in Jacobians and Hessians", "may have another sign", "gradients that are structurally zero are not multiplied out"),
    ("`autograd.Function` without `setup_context` or `vmap` under `torch.func`", "works; PyTorch raises", "the graph runs through it"),
    ("`forward_ad`: `no_grad` inside a dual level", "raises", "tangents follow the recorded graph here"),
    ("`forward_ad`: a write to what was used before, then `unpack_dual`", "raises", "tangents are computed when they are asked for"),
    ("an in-place write to an inference tensor outside of the mode", "raises before it writes; PyTorch after", "errors come first"),
    ("`torch.compile`", "runs pure functions of tensors as programs of `functrace.jit`, all else as it is; modules come back as they are",
     "the result is the same either way"),
    ("`addbmm_` that would change the tensor's shape", "raises; PyTorch gives it the new shape", "no other operation in place does"),
    ("`pinv` with `rtol` or `atol`, where singular values that are not zero are left out", "the gradient is the derivative; PyTorch's "
     "takes them for zero", "finite differences agree with ours"),
    ("`cosine_similarity` of vectors shorter than `eps`", "the gradient is the derivative; PyTorch's takes the norm that it replaces for "
     "the one that counts", "finite differences agree with ours"),
    ("`ctc_loss` of what is not a `log_softmax`", "the gradient is the derivative; PyTorch's is that of `ctc_loss` after `log_softmax`",
     "after `log_softmax` they are equal"),
    ("`weight_norm` along the first or the last axis", "second derivatives are the derivative; PyTorch's fails its own gradgradcheck",
     "finite differences agree with ours"),
    ("strides of results of `linalg` and `einsum`, of indexing with arrays, and of operations on two tensors that lie in different orders",
     "are those of elements in order; PyTorch's are LAPACK's, or those of the first tensor", "so `view` may work where PyTorch wants "
     "`reshape`, which then gives a view"),
    ("`__torch_function__` of classes that are not tensors", "is asked once a subclass of Tensor is defined or `torch.overrides` was used; "
     "`python -m functrace.torch` sees to it", "nobody else pays for it"),
    ("`DataLoader(num_workers=n)`", "loads in the calling process", "warns of a stream, and of `worker_init_fn`: "
     "else the batches are the same"),
)  # fmt: skip

_TESTS = Path(__file__).parent.parent / "tests"
_PROBED = """
## Behaviours that were probed

Each is a program in `tests/`, with what PyTorch printed, or a test of its own; the name says what holds.

"""


def behaviours() -> str:
    """The names of the tests of the shim, by file."""
    rows = []
    for path in (*sorted(_TESTS.glob("test_torch_*.py")), *sorted(_TESTS.glob("programs/*.txt"))):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"^## (\w+)$|^def test_(\w+)\(", text, re.M)
        names = [(program or test).replace("_", " ") for program, test in found]
        names = [n for n in dict.fromkeys(names) if "pytorchs" not in n and "what pytorch prints" not in n]
        if names:
            told = f"- `{path.relative_to(_TESTS)}`: " + "; ".join(names) + "."
            rows.append(textwrap.fill(told, 140, break_long_words=False, break_on_hyphens=False))
    return _PROBED + "\n".join(rows) + "\n"


_AGREEMENT = """
## How far the operations agree

An operation is a public name of `torch`, a method of `Tensor`, or a name of `linalg`, `fft`, `special` or `nn.functional` that computes.
A test calls each at least twice under PyTorch and here, in float64 (and complex128), and compares values, gradients (to 1e-6) and, where
PyTorch has them, second derivatives (to 1e-5); a method or a form in place at up to four of them.

| of the {total} operations that PyTorch differentiates | |
|---|---|
| agree in all calls | {agrees} ({share:.1%}) |
| differ in some calls, as listed below | {differs} |
| raise an error that names them, in some calls or all | {raises} |

Another {values} operations have no derivative in PyTorch (or at the samples); their values agree. Those that raise:
{names}"""


def agreement() -> str:
    """How many operations agree with PyTorch: the counts of `tests/torch_oracle.py`."""
    sys.path.insert(0, str(_TESTS))
    try:
        told, wrong = importlib.import_module("torch_oracle").survey()
    finally:
        sys.path.remove(str(_TESTS))
    if wrong:
        raise SystemExit("\n".join(wrong))
    agrees, differs, raises = (len(told[k]) for k in ("agrees", "differs", "raises"))
    total = agrees + differs + raises
    counts = {"total": total, "agrees": agrees, "differs": differs, "raises": raises, "share": agrees / total}
    return _AGREEMENT.format(**counts, values=len(told["no derivative"]), names=_names(told["raises"]))


_REASONS = {  # words that occur in the names
    "sparse tensors": "sparse _indices_copy ccol_ crow_ col_indices row_indices coalesce hsmm hspmm smm spmm sspaddmm saddmm dsmm indices "
    "values dense_dim to_dense",
    "quantised tensors": "quant q_ qscheme int_repr fbgemm qparams scaled_mm grouped_mm",
    "devices other than the CPU, and kernels for them": "cudnn miopen mkldnn native_ vulkan cuda ipu xpu mps maia mtia xla pin_memory "
    "is_pinned record_stream batch_norm_ device_module",
    "compiling, scripting, symbolic shapes": "sym_ compile parse_ import_ir fork wait unify merge_type script cond while_loop freeze "
    "export vmap_",
    "autocast, deterministic modes, profiling": "autocast determin profil warn_always flush_denormal matmul_precision _threads anomaly",
    "several processes": "distributed share_memory is_shared multiprocess parallel worker",
    "nested and named tensors, storages, internals": "nested padded_tensor name align refine storage set_ as_subclass volatile reinforce "
    "module_load hash_tensor classproperty is_set_to grad_dtype data_ptr resize dim_order torch_function dispatch",
    "copies of views: use `.clone()`": "_copy _inverse",
    "removed from PyTorch: they raise there too": "eig lstsq matrix_rank symeig",
    "in `torch.nn` only": "lstm gru rnn norm pool conv dropout embedding _loss grid shuffle bilinear elu shrink threshold kl_div "
    "constant_pad entropy cosine pairwise",
    "lazy modules: give the sizes": "lazy",
}


_CLASSES = "Generator Size Tensor device dtype enable_grad finfo iinfo inference_mode layout memory_format no_grad set_grad_enabled".split()


def _public(space: Any, module: str) -> set[str]:
    """Functions, and classes that the module defines; of `torch` itself not those of its compiler."""

    def counts(name: str) -> bool:
        x = getattr(space, name, None)
        home = str(getattr(x, "__module__", None) or "torch")
        if inspect.isclass(x) and module != "Tensor":
            return home.startswith(f"torch.{module}") if module else name in _CLASSES or name.endswith("Tensor")
        return callable(x) and home.startswith(("torch", "builtins"))

    return {name for name in dir(space) if not name.startswith("_") and counts(name)}


def public_names(module: str) -> set[str]:
    """PyTorch's public names in one of its modules."""
    return _public(_space("torch", module), module)


def _space(package: str, name: str) -> Any:
    if name == "Tensor":
        return importlib.import_module(package).Tensor
    return importlib.import_module(f"{package}.{name}" if name else package)


def _has(space: Any, name: str) -> bool:
    try:
        return hasattr(space, name)
    except ImportError:
        return False


def _names(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{n}`" for n in sorted(names)), 140, break_long_words=False, break_on_hyphens=False) + "\n"


def compare(name: str) -> tuple[set[str], set[str]]:
    """The names of one of PyTorch's modules that are here, and those that are not."""
    ours = _space("functrace.torch", name)
    theirs = public_names(name)
    here = {n for n in theirs if _has(ours, n)}
    return here, theirs - here


def _missing(names: set[str]) -> str:
    rows, rest = [], set(names)
    for reason, parts in _REASONS.items():
        found = {n for n in rest if any(part in n.lower() for part in parts.split())}
        rest -= found
        if found:
            rows.append(f"- {reason}: {_names(found)}")
    return "".join(rows) + (f"- not there yet: {_names(rest)}" if rest else "")


def page() -> str:
    """The text of the page."""
    rows, parts = ["| module | names | here | not here |\n|---|---|---|---|\n"], []
    for name in MODULES:
        here, absent = compare(name)
        title = "torch" + (f".{name}" if name else "")
        rows.append(f"| `{title}` | {len(here | absent)} | {len(here)} | {len(absent)} |\n")
        parts.append(f"\n## {title}\n\nHere: {_names(here)}" + (f"\nNot here:\n\n{_missing(absent)}" if absent else ""))
    version = ".".join(importlib.import_module("torch").__version__.split(".")[:2])
    differences = "".join(f"| {where} | {what} | {why} |\n" for where, what, why in DIFFERENCES)
    return (
        _HEAD.format(version=version, table="".join(rows), agreement=agreement().strip("\n")) + differences + behaviours() + "".join(parts)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
