"""Where PyTorch rounds or gives NaN the shim gives the value; and modules that have PyTorch's name only, without `install`."""

import collections
import collections.abc
import importlib
import io
import math
import pickle
import re
import types

import numpy as np
import pytest

import functrace.torch as torch

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("random", "_random"), ("serialization", "_serialization"), ("autograd.grad_mode", "_modes"), ("nn.modules.loss", "nn.modules.loss"),
        ("utils.data.dataset", "utils.data"), ("distributions.normal", "distributions.continuous"), ("optim.adam", "optim.algorithms"),
        ("nn.utils.clip_grad", "nn.utils"), ("cuda.amp", "amp"),
    ],
)  # fmt: skip
def test_modules_with_names_of_pytorchs_files_can_be_imported(name, module):
    found = importlib.import_module(f"functrace.torch.{name}")
    assert found is importlib.import_module(f"functrace.torch.{module}")
    assert found.__spec__ is None or found.__spec__.name == found.__name__
    for part in name.split("."):
        module = getattr(torch if part == name.split(".")[0] else module, part)
    assert module is found


@pytest.mark.parametrize(
    ("name", "advice"), [("export", "state_dict"), ("optim.muon", "autograd.Function"), ("nn.no_such_file", "autograd.Function")]
)
def test_modules_that_are_not_there_say_what_to_use(name, advice):
    with pytest.raises(ModuleNotFoundError, match=rf"No module named 'torch\.{name}' in functrace.torch.*{advice}"):
        importlib.import_module(f"functrace.torch.{name}")


def slope(f, *values, order):
    xs = [torch.tensor(v, requires_grad=True) for v in values]
    out = f(*xs)
    for _ in range(order):
        grads = torch.autograd.grad(out, xs, create_graph=True)
        out = grads[0]
    return [g.item() for g in grads]


@pytest.mark.parametrize(
    ("f", "values", "order", "wanted"),
    [
        (torch.atan2, (1e-30, 1e-30), 1, (5e29, -5e29)),
        (torch.atan2, (INF, 1.0), 1, (0.0, 0.0)),
        (torch.atan2, (0.0, 0.0), 1, (0.0, 0.0)),
        (torch.sinc, (1e-30,), 1, (-(math.pi**2) / 3 * 1e-30,)),
        (torch.sinc, (0.0,), 2, (-(math.pi**2) / 3,)),
        (torch.logit, (0.0,), 1, (INF,)),
        (torch.logit, (1.0,), 1, (INF,)),
        (torch.logit, (0.25,), 2, (-(1 - 0.5) / (0.25 * 0.75) ** 2,)),
        (torch.nn.functional.celu, (INF,), 1, (1.0,)),
        (torch.i0, (NAN,), 1, (NAN,)),
        (torch.fmax, (NAN, NAN), 1, (1.0, 0.0)),
        (torch.fmin, (2.0, 2.0), 1, (1.0, 0.0)),
        (torch.fmin, (NAN, 2.0), 1, (0.0, 1.0)),
    ],
)
def test_slopes_at_the_ends(f, values, order, wanted):
    with np.errstate(all="ignore"):  # as the runner of scripts does: PyTorch does not warn
        found = slope(f, *values, order=order)
    assert found == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("f", [torch.fliplr, torch.rot90, lambda a: torch.matrix_power(a, 1), lambda a: torch.einsum("ij->ji", a)])
def test_results_do_not_share_their_arguments_memory_unseen(f, requires_grad):
    a = torch.arange(4.0).view(2, 2).requires_grad_(requires_grad)
    r = f(a)
    before = a.detach().clone()
    with torch.no_grad():
        r.mul_(7)
    assert torch.equal(a.detach(), before) or r._base is not None


def test_results_in_traced_functions_are_the_same():
    x = torch.arange(6.0).view(2, 3)
    assert torch.equal(torch.func.vmap(lambda v: v.flip(0))(x), x.flip(1))
    assert torch.equal(torch.func.grad(lambda v: (v.flip(0) * torch.arange(3)).sum())(x[0]), torch.tensor([2.0, 1.0, 0.0]))
    both = torch.func.jvp(torch.complex, (x, x + 1), (x, x))[1]
    assert torch.equal(both, torch.complex(x, x))


def test_a_negative_offset_reads_no_foreign_memory():
    with pytest.raises(RuntimeError, match="invalid storage offset -1"):
        torch.ones(3).as_strided((2,), (1,), -1)


def test_what_scripts_ask_of_the_machine():
    torch.set_num_interop_threads(1)
    assert torch.backends.cudnn.version() is None and not torch.backends.mkldnn.is_available()
    assert torch.ones(1).is_cpu and not torch.ones(1).is_cuda


def test_methods_of_other_modules_take_names():
    x = torch.tensor([-2.0, 0.4, 1.0])
    assert torch.equal(x.hardshrink(lambd=0.5), torch.tensor([-2.0, 0.0, 1.0]))
    assert torch.equal(x.prelu(weight=torch.tensor([0.25])), torch.tensor([-0.5, 0.4, 1.0]))


APART = {  # each a function of a (1, 4, 4) tensor, of which one element is of no concern to most results
    "max_pool1d": lambda x: torch.nn.functional.max_pool1d(x, 2),
    "max_pool2d": lambda x: torch.nn.functional.max_pool2d(x, 2),
    "max": lambda x: x.max().reshape(1, 1),
    "adaptive_avg_pool2d": lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (2, 3)),
    "linear": lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="linear"),
    "bilinear": lambda x: torch.nn.functional.interpolate(x[None], scale_factor=2, mode="bilinear")[0],
    "antialias": lambda x: torch.nn.functional.interpolate(x[None], (2, 3), mode="bilinear", antialias=True)[0],
}


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("name", APART)
def test_what_a_result_does_not_see_can_be_no_number(name, bad):
    f, ones = APART[name], torch.ones(1, 4, 4, dtype=torch.float64)
    x, spoilt = (torch.arange(16.0, dtype=torch.float64).reshape(1, 4, 4) for _ in range(2))
    spoilt[0, 3, 3] = bad
    seen = torch.func.vmap(lambda row: f(row.reshape(1, 4, 4)).flatten())(torch.eye(16, dtype=torch.float64))[15] > 0
    if name in ("max_pool1d", "max_pool2d", "max"):
        seen = f(x).flatten() == 15
    same = torch.isclose(f(x), f(spoilt), rtol=1e-12, atol=0.0).flatten()
    assert torch.equal(same, ~seen) or name == "max"
    x.requires_grad_()
    weights = torch.where(seen, bad, 1.0).reshape(f(ones).shape)
    (gradient,) = torch.autograd.grad(f(x), x, weights)
    (wanted,) = torch.autograd.grad(f(x), x, torch.where(seen, 7.0, 1.0).reshape(weights.shape))
    (touched,) = torch.autograd.grad(f(x), x, seen.double().reshape(weights.shape))
    assert torch.allclose(gradient[touched == 0], wanted[touched == 0], rtol=1e-12, atol=0.0)
    assert not gradient[touched != 0].isfinite().any()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
@np.errstate(invalid="ignore")  # the logarithms of an infinite row are NaN, and so is the mean of nothing
def test_an_ignored_target_is_not_looked_at(bad, reduction):
    x, target = torch.randn(3, 4, dtype=torch.float64), torch.tensor([2, -100, 1])
    x[1] = bad
    for f in (torch.nn.functional.nll_loss, torch.nn.functional.cross_entropy):
        found = f(x, target, reduction=reduction)
        assert torch.equal(found if reduction != "none" else found[[0, 2]], f(x[[0, 2]], target[[0, 2]], reduction=reduction))
    x = torch.zeros(3, 4, requires_grad=True)
    torch.nn.functional.nll_loss(x, target, reduction="none").backward(torch.tensor([1.0, bad, 1.0]))
    assert x.grad[1].tolist() == [0.0] * 4
    assert torch.nn.functional.nll_loss(x, torch.full((3,), -100)).isnan()


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_padding_takes_no_gradient(bad):
    w = torch.ones(3, 2, requires_grad=True)
    rows = torch.nn.functional.embedding(torch.tensor([0, 1]), w, padding_idx=1)
    rows.backward(torch.tensor([[1.0, 2.0], [bad, bad]]))
    assert w.grad.tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_hinge_has_one_side():
    f, x = torch.nn.functional.hinge_embedding_loss, torch.tensor([np.inf, 2.0])
    assert f(x, torch.tensor([-1, 1]), reduction="none").tolist() == [0.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_number_meets_a_tensor_in_its_dtype(dtype):
    edges = torch.tensor([0.1, 0.7, 0.9], dtype=dtype)
    for f in (lambda x, **right: torch.bucketize(x, edges, **right), lambda x, **right: torch.searchsorted(edges, x, **right)):
        assert [(f(x).item(), f(x, right=True).item()) for x in (0.1, 0.7, 0.9)] == [(0, 1), (1, 2), (2, 3)]
        assert f(1).item() == 3
    assert torch.isin(edges, 0.7).tolist() == [False, True, False] and torch.isin(0.9, edges).item()
    assert torch.bucketize(1.5, torch.tensor([1, 2])).item() == 1


def test_a_norm_is_not_limited_to_less_than_nothing():
    with pytest.raises(RuntimeError, match="renorm: expected maxnorm to be >= 0 but got -1"):
        torch.ones(2, 2).renorm(2, 0, -1)


def test_numbers_of_a_batch_keep_their_precision():
    data = torch.utils.data
    assert [x for batch in data.DataLoader([0.1, 0.2, 0.3], batch_size=2) for x in batch.tolist()] == [0.1, 0.2, 0.3]
    assert data.WeightedRandomSampler([0.1, 0.7], 1).weights.tolist() == [0.1, 0.7]


class Fields(collections.abc.Mapping):
    """A mapping that is made of more than its items."""

    def __init__(self, items, name):
        self.items_, self.name = items, name

    def __getitem__(self, key):
        return self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


def test_a_batch_of_mappings_is_one_of_their_kind():
    for make in (torch.utils.data.default_collate, lambda batch: torch.utils.data.default_convert(batch[0])):
        made = make([collections.defaultdict(list, a=np.ones(2))])
        assert type(made) is collections.defaultdict and made["b"] == [] and isinstance(made["a"], torch.Tensor)
        frozen = make([types.MappingProxyType({"a": np.ones(2)})])
        assert type(frozen) is types.MappingProxyType and isinstance(frozen["a"], torch.Tensor)
        assert type(make([Fields({"a": np.ones(2)}, "some")])) is dict


def test_tensors_without_axes():
    x = torch.tensor(3.0)
    assert [torch.msort(x).item(), torch.adjoint(x).item(), torch.adjoint(torch.tensor(1j)).item()] == [3, 3, -1j]
    assert [torch.where(x)[0].tolist(), x.nonzero(as_tuple=True)[0].tolist(), torch.where(x < 0)[0].tolist()] == [[0], [0], []]
    assert torch.sigmoid(torch.tensor(0.0)).item() == 0.5
    with pytest.raises(RuntimeError, match="adjoint.. is only supported on matrices or batches of matrices. Got 1-D tensor"):
        torch.adjoint(torch.ones(2))


def test_norms_of_the_slices_of_a_vector_are_its_elements():
    v = torch.tensor([-3.0, 4.0])
    assert torch.norm_except_dim(v).tolist() == [3.0, 4.0] and torch.norm_except_dim(v, 2, -1).item() == 5.0
    assert torch.norm_except_dim(torch.ones(2, 3), 1, 1).tolist() == [[2.0, 2.0, 2.0]]
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.norm_except_dim(v, 2, 1)


def test_defaults_and_kinds():
    assert torch.histogram(torch.tensor([1.0, 2.0])).hist.shape == (100,)
    flags = torch.tensor([True, False])
    assert torch.conj_physical(flags).tolist() == [True, False] and torch.conj_physical(flags).dtype == torch.bool


def test_whether_a_matrix_is_singular_is_decided_in_its_own_precision():
    columns, rows = np.random.default_rng(19).integers(1, 9, (2, 300, 3)).astype(np.float32) / np.float32(10)
    for a in np.einsum("ki,kj->kij", columns, rows):
        try:
            np.linalg.inv(a)
        except np.linalg.LinAlgError:
            assert torch.linalg.inv_ex(torch.tensor(a)).info > 0
        else:
            assert torch.linalg.inv_ex(torch.tensor(a)).info == 0


@pytest.mark.parametrize("bad", [NAN, INF])
def test_what_has_no_singular_values_and_no_factor_is_refused(bad):
    """LAPACK does not return from the singular values of infinities."""
    x = torch.arange(30.0).reshape(2, 5, 3)
    x[1, 0, 0] = bad
    linalg, error = torch.linalg, torch.linalg.LinAlgError
    for f in (
        linalg.svd,
        linalg.svdvals,
        linalg.pinv,
        linalg.matrix_rank,
        torch.svd,
        torch.pinverse,
        lambda x: torch.norm(x, "nuc", (1, 2)),
    ):
        with pytest.raises(
            error, match=r"linalg.svd: \(Batch element 1\): The algorithm failed to converge because the input matrix contained"
        ):
            f(x)
    with pytest.raises(error, match=r"positive-definite \(the leading minor of order 1 is not"):
        linalg.cholesky(torch.full((3, 3), bad))
    with np.errstate(all="ignore"):
        assert linalg.matrix_exp(x[1, :3]).isnan().all()


def test_means_of_integers_are_integers():
    x = torch.arange(-4, 4).reshape(1, 8)
    assert torch.nn.functional.avg_pool1d(x, 2).tolist() == [[-3, -1, 0, 2]]  # cut, not rounded down
    assert torch.nn.functional.lp_pool1d(x, 2, 2).dtype is torch.float32
    with pytest.raises(NotImplementedError, match="\"avg_pool2d\" not implemented for 'Byte'"):
        torch.nn.functional.avg_pool1d(x.byte(), 2)


def test_what_is_put_in_takes_the_dtype_and_places_the_axes():
    z = torch.zeros(3, 3, dtype=torch.complex64)
    assert torch.as_strided_scatter(z, torch.ones(2, 2, dtype=torch.int64), (2, 2), (1, 2)).dtype is torch.complex64
    assert torch.trapezoid(torch.arange(9.0).view(1, 3, 3), torch.tensor([[0.0, 1.0, 4.0]])).tolist() == [[5.0, 17.0, 29.0]]
    with pytest.raises(RuntimeError, match="linalg.svd: The input tensor A must have at least 2 dimensions"):
        torch.linalg.svd(torch.ones(3))
    with pytest.raises(RuntimeError, match="linalg.qr: The input tensor A must have at least 2 dimensions"):
        torch.linalg.qr(torch.ones(3))


def test_batches_of_no_examples():
    assert torch.nn.functional.max_pool2d(torch.zeros(0, 1, 8, 8), 2, return_indices=True)[1].shape == (0, 1, 4, 4)
    assert torch.searchsorted(torch.zeros(0, 5), torch.zeros(0, 3)).shape == (0, 3)
    assert torch.searchsorted(torch.zeros(2, 0), torch.zeros(2, 3)).tolist() == [[0] * 3] * 2


def test_a_padded_batch_put_in_order_lies_in_order():
    rows = [torch.ones(2, 3), torch.ones(4, 3)]
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False), batch_first=True)
    assert padded.view(-1).tolist() == [1.0] * 6 + [0.0] * 6 + [1.0] * 12


def test_arguments_that_pytorch_refuses_are_refused():
    one, two = torch.ones(2, 3), torch.ones(3, 2, dtype=torch.float64)
    spectrum = torch.stft(torch.arange(16.0), 8, hop_length=2, return_complex=True)
    for call, words in (
        (lambda: torch.addmm(torch.ones(2), one.double(), two), "self and mat2 must have the same dtype, but got Float and Double"),
        (lambda: torch.addbmm(torch.ones(2, 2), one.double()[None], two[None].float()), "mat1 and mat2 must have the same dtype"),
        (lambda: torch.baddbmm(torch.ones(1, 2, 2), one[None], two[None]), "got: input float, batch1: float, batch2: double"),
        (lambda: torch.nn.functional.linear(one, one, torch.ones(2, dtype=torch.float64)), "self and mat2 must have the same dtype"),
        (lambda: torch.quantile(torch.ones(3), torch.tensor([[0.5]])), "q must be a scalar or 1D"),
        (lambda: +torch.tensor([True]), "on a bool tensor is not supported"),
        (lambda: torch.poisson(torch.tensor([math.nan])), "expected rate to be non-negative"),
        (lambda: torch.stft(torch.ones(16), 4, hop_length=0, return_complex=True), "expected hop_length > 0"),
        (
            lambda: torch.stft(torch.ones(16), 4, window=torch.ones(1), return_complex=True),
            "1D window tensor of size equal to win_length=4",
        ),
        (lambda: torch.stft(torch.ones(16), 40, return_complex=True), "expected 0 < n_fft < 32"),
        (lambda: torch.istft(spectrum, 6, 2), "frequency dimension of the input tensor to be 4, but got 5"),
        (lambda: torch.istft(spectrum.real, 8, 2), "istft requires a complex-valued input"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(words)):
            call()
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.zeros(4, 3).index_reduce_(0, torch.tensor([-1, 0]), torch.ones(2, 3), "prod")
    assert torch.binomial(torch.tensor([2.0]), torch.tensor([math.nan])).isnan().all()


def test_resize_reads_memory_and_tensordot_takes_axes_in_a_tensor():
    x = torch.arange(6.0).reshape(2, 3).t()
    assert x.resize_(2, 3).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), dims=torch.tensor([[1], [0]])).tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_whole_module_is_loaded_once_its_class_is_allowed():
    file = io.BytesIO()
    torch.save(torch.nn.Linear(1, 1), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.linear\.Linear was not an allowed global"):
        torch.load(file)
    file.seek(0)
    with torch.serialization.safe_globals([torch.nn.Linear]):
        assert isinstance(torch.load(file), torch.nn.Linear)


def test_transforms_along_no_axis_change_nothing_or_are_refused():
    x = torch.arange(4.0).reshape(2, 2)
    for name in ("fftn", "ifftn", "fft2", "ifft2"):
        out = getattr(torch.fft, name)(x, dim=())
        assert out.dtype == torch.complex64 and out.real.tolist() == x.tolist()
    for kind in ("r", "ir", "h", "ih"):
        with pytest.raises(RuntimeError, match=f"^{kind}fftn must transform at least one axis"):
            getattr(torch.fft, f"{kind}fftn")(x, dim=())
    with pytest.raises(RuntimeError, match="dim and shape arguments must have the same length"):
        torch.fft.fft2(x, s=(3,))


def test_the_row_of_padding_has_tangents_and_no_gradient():
    w, rows = torch.ones(3, 2), torch.tensor([0, 2])
    f = lambda w: torch.nn.functional.embedding(rows, w, padding_idx=0)
    assert torch.func.jvp(f, (w,), (2 * w,))[1].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert torch.func.vjp(f, w)[1](torch.ones(2, 2))[0].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


def test_lgamma_is_infinite_at_minus_infinity():
    assert torch.lgamma(torch.tensor([-math.inf, -1.0, 3.0])).tolist() == pytest.approx([math.inf, math.inf, math.log(2)])


def test_cat_names_the_tensor_that_has_no_axis():
    for shapes, k in ((((), (2,)), 0), (((2,), ()), 1), (((0,), ()), 1)):
        with pytest.raises(RuntimeError, match=rf"^zero-dimensional tensor \(at position {k}\) cannot be concatenated$"):
            torch.cat([torch.zeros(s) for s in shapes])
