"""Tensors: printing, conversion, copies, files, exchange with NumPy, views and writes."""

import io
import pickle
import pickletools
import sys
import zipfile

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch


def saved(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return file


def test_files_keep_values_types_sharing_and_flags():
    base = torch.arange(6.0).reshape(2, 3)
    tree = {
        "base": base, "view": base.t()[1:], "list": [1, 2.5, "x", None, (True,), 3j], "int": torch.tensor([1, 2]), "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.0), "leaf": torch.ones(2, requires_grad=True), "half": torch.ones(2, dtype=torch.float16),
        "u16": torch.tensor([1], dtype=torch.uint16), "dtype": torch.float64, "size": torch.Size([2]), "complex": torch.tensor([1 + 2j]),
    }  # fmt: skip
    back = torch.load(saved(tree))
    assert back["list"] == tree["list"] and back["dtype"] is torch.float64 and isinstance(back["size"], torch.Size)
    for name, x in tree.items():
        if isinstance(x, torch.Tensor):
            y = back[name]
            assert (y.tolist(), y.dtype, y.shape, y.requires_grad) == (x.tolist(), x.dtype, x.shape, x.requires_grad), name
    back["base"][0, 1] = 100.0
    assert back["view"][0, 0] == 100.0
    assert torch.load(saved(torch.ones(2, requires_grad=True) * 2)).tolist() == [2.0, 2.0]


def test_files_name_types_sizes_and_devices_as_pytorch_does():
    twice = [torch.float32, torch.float64, torch.float32, torch.bfloat16, torch.bool]
    tree = {"types": twice, "size": torch.Size([2, 3]), "none": torch.Size([]), "device": torch.device("cpu:0"), "range": range(2, 9, 3)}
    file = saved(tree)
    names = {name for op, name, _ in pickletools.genops(zipfile.ZipFile(file).read("archive/data.pkl")) if op.name == "GLOBAL"}
    assert names == {f"torch {x}" for x in ("float32", "float64", "bfloat16", "bool", "Size", "device")} | {"__builtin__ xrange"}
    for safe in (True, False):
        file.seek(0)
        back = torch.load(file, weights_only=safe)
        assert back == tree and back["types"][0] is torch.float32 and isinstance(back["size"], torch.Size)
    try:
        import torch as oracle
    except ImportError:
        return
    file.seek(0)
    assert str(oracle.load(saved({k: tree[k] for k in ("types", "size", "none")}))["types"]) == str(twice)
    file.seek(0)
    assert oracle.load(file, weights_only=False)["device"] == oracle.device("cpu:0")


def test_a_result_that_requires_grad_is_a_leaf_that_does_in_a_file():
    back = torch.load(saved({"x": torch.ones(2, requires_grad=True) * 2}))["x"]
    assert back.requires_grad and back.is_leaf and back.tolist() == [2.0, 2.0]


def test_loading_runs_no_code():
    class Evil:
        def __reduce__(self):
            return print, ("evil",)

    with pytest.raises(pickle.UnpicklingError, match=r"print was not an allowed global"):
        torch.load(saved({"x": Evil()}))
    file = saved(ZeroDivisionError("x"))
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(file)
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=False), ZeroDivisionError)
    file.seek(0)
    with torch.serialization.safe_globals([ZeroDivisionError]):
        assert isinstance(torch.load(file), ZeroDivisionError)
    assert not torch.serialization.get_safe_globals()


@pytest.mark.parametrize("stride", [(1000, 1), (-1, 1)])
def test_a_tensor_can_not_reach_out_of_its_storage(stride):
    from functrace.torch import _serialization

    with pytest.raises(pickle.UnpicklingError, match="does not fit"):
        _serialization._rebuild_tensor_v2(_serialization._Storage(np.zeros(6)), 0, (2, 3), stride, False, {})


def test_broken_files_say_so():
    with pytest.raises(pickle.UnpicklingError, match="not a file of torch.save"):
        torch.load(io.BytesIO(b"nonsense"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(RuntimeError, match="no data.pkl"):
        torch.load(file)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        torch.load(saved(1), map_location="cuda")


@pytest.mark.parametrize("order", [None, "little", "big"])
def test_files_of_either_byte_order_and_older_ones_that_name_none(order):
    old, file = zipfile.ZipFile(saved(torch.arange(3.0))), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                if order is None:
                    continue
                data = order.encode()
            elif name.endswith("data/0") and order == "big":
                data = np.frombuffer(data, "<f4").astype(">f4").tobytes()
            archive.writestr(name, data)
    file.seek(0)
    assert torch.load(file).tolist() == [0, 1, 2]


def test_files_are_pytorchs():
    real = pytest.importorskip("torch", reason="the oracle: PyTorch is not installed")
    base = torch.arange(6.0).reshape(2, 3)
    tree = {"a": base, "b": base.t()[1:], "c": [torch.tensor([1 + 2j]), torch.tensor([True]), torch.arange(3)], "n": 1}
    theirs = real.load(saved(tree))
    assert theirs["a"].tolist() == base.tolist() and theirs["b"].stride() == tree["b"].stride() and theirs["c"][2].tolist() == [0, 1, 2]
    file = io.BytesIO()
    real.save({"m": real.nn.Linear(2, 3).state_dict(), "h": real.ones(2).half(), "s": {1, 2}, "b": b"abc", "d": real.float32}, file)
    ours = torch.load(file)
    assert list(ours["m"]) == ["weight", "bias"] and ours["h"].dtype is torch.float16 and ours["b"] == b"abc" and ours["d"] is torch.float32


def test_exchange_by_dlpack_shares_memory():
    t = torch.zeros(3)
    a = np.from_dlpack(t)
    t[0] = 5.0
    assert a[0] == 5.0
    b = np.arange(3.0)
    torch.from_dlpack(b)[1] = 7.0
    assert b[1] == 7.0
    shared = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(t))
    t[1] = 6.0
    assert shared.tolist() == [5.0, 6.0, 0.0]
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.concatenate([x, x * x]),
        lambda x: np.linalg.norm(x),
        lambda x: np.dot(x, np.exp(x)),
        lambda x: np.einsum("i,j->ij", x, x),
        lambda x: np.where(x > 0.5, x, x * x),
        lambda x: np.sum(np.sin(x) * np.cumsum(x)),
        lambda x: np.stack([x, np.tanh(x)]).mean(),
        lambda x: np.multiply.reduce(np.cbrt(x)),
        lambda x: np.add.accumulate(x) * np.exp(x, dtype=np.float32),
    ],
)
def test_backward_runs_through_functions_written_with_numpy(f):
    values = np.array([0.3, 0.9, 0.6])
    x = torch.tensor(values, requires_grad=True)
    y = f(x)
    assert isinstance(y, torch.Tensor) and y.requires_grad
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), f(values))
    np.testing.assert_allclose(x.grad.numpy(), ft.grad(lambda a: np.sum(f(a)))(values), rtol=1e-12)
    np.testing.assert_allclose(torch.func.grad(lambda x: f(x).sum())(x.detach()).numpy(), x.grad.numpy(), rtol=1e-12)


def test_the_array_of_a_tensor_that_requires_grad_is_only_read():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 3.0
    x.numpy(force=True)[0] = x.detach().numpy()[1] = 3.0
    assert x.tolist() == [3, 3]


def test_an_index_that_is_an_array_counts_as_it_was():
    x = torch.arange(6.0).requires_grad_()
    for f in (lambda i: x[i], lambda i: (x * 1).index_put((torch.tensor(i),), torch.zeros(2))):
        i = np.array([0, 2])
        y = f(i)
        (g,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        i += 1
        assert torch.autograd.grad(y.sum(), x)[0].tolist() == g.tolist()


def test_indices_are_not_written_unnoticed_where_hooks_keep_what_is_saved():
    x, i = torch.arange(6.0).requires_grad_(), torch.tensor([0, 2])
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x[i] * 2
    i += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_numpys_functions_write_into_no_tensor():
    t = torch.zeros(3)
    for write in (lambda: np.add(np.ones(3), 1, out=t), lambda: np.add(t, 1, out=t), lambda: np.add.at(t, [0], 1.0)):
        with pytest.raises(TypeError, match=r"np.add writes into an array, not into a tensor: give it t.numpy\(\)"):
            write()
    assert np.add(t, 1, out=t.numpy()).tolist() == t.tolist() == [1, 1, 1]
    assert (np.float64(7) // (2 * t)).tolist() == [3, 3, 3] and (np.float64(7) % (2 * t)).dtype is torch.float32


def test_an_array_beside_a_tensor_is_promoted_as_by_numpy():
    t, n = torch.ones(3, requires_grad=True), np.array([1, 2, 3])
    for y in (t * n, n * t, t @ n, np.add(t, n)):
        assert y.dtype is torch.float64 and y.requires_grad
    (t * n).sum().backward()
    assert t.grad.dtype is torch.float32 and t.grad.tolist() == [1, 2, 3]
    assert (t * np.float32([1, 2, 3])).dtype is (t * torch.tensor(n)).dtype is torch.float32


def test_numpy_functions_on_tensors_without_grad_give_arrays_as_under_pytorch():
    out = np.concatenate([torch.ones(1), torch.zeros(1)])
    assert isinstance(out, np.ndarray) and out.tolist() == [1.0, 0.0]


def test_second_derivative_through_numpy():
    x = torch.tensor([0.3, 0.9], dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(np.linalg.norm(x) ** 4, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(h.numpy(), ft.jacobian(ft.grad(lambda a: np.sum(a * a) ** 2))(v) @ np.ones(2), rtol=1e-10)


def test_the_machine_has_no_accelerator():
    assert not torch.cuda.is_available() and not torch.backends.mps.is_available() and torch.cuda.device_count() == 0
    assert torch.device("cuda" if torch.cuda.is_available() else "cpu").type == "cpu" and torch.ones(1).to("cpu").device == torch.device(
        "cpu"
    )
    for use in (
        lambda: torch.cuda.current_device(),
        lambda: torch.ones(1).cuda(),
        lambda: torch.ones(1, device="cuda"),
        lambda: torch.arange(2, device="cuda"),
        lambda: torch.fft.fftfreq(2, device="cuda"),
        lambda: torch.tril_indices(2, 2, device="cuda"),
        lambda: torch.randperm(2, device="cuda"),
        lambda: torch.as_tensor(torch.ones(1), device="cuda"),
        lambda: torch.zeros_like(torch.ones(1), device="cuda"),
        lambda: torch.full_like(torch.ones(1), 2.0, device="cuda"),
        lambda: torch.full((1,), 2.0, device="cuda"),
    ):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            use()


def test_a_dtype_that_numpy_has_not_says_so():
    for use in (lambda: torch.ones(1, dtype=torch.bfloat16), lambda: torch.ones(1).to(torch.bfloat16)):
        with pytest.raises(NotImplementedError, match="no such tensors, since NumPy has no such type: use torch.float32"):
            use()


def test_what_is_not_there_names_an_alternative():
    for name, hint in (("quantization", "use float32"), ("sparse", "dense tensors"), ("export", "state_dict")):
        with pytest.raises(NotImplementedError, match=hint):
            getattr(torch, name)
    with pytest.raises(NotImplementedError, match="functrace.jit"):
        torch.jit.trace(lambda x: x, torch.ones(1))
    with pytest.raises(NotImplementedError, match="scaled_dot_product_attention"):
        torch.nn.attention.flex_attention.flex_attention(torch.ones(1), torch.ones(1), torch.ones(1))


def test_what_is_declared_for_torchscript_is_left_as_it_is():
    layer = torch.nn.Linear(1, 1)
    assert torch.jit.script(layer) is layer and torch.jit.script(len) is len
    with pytest.raises(AttributeError, match="save"):
        torch.jit.script(layer).save("file")


def test_a_compiled_function_is_a_program_where_it_is_pure():
    def program(compiled):
        (found,) = compiled.programs.values()
        return found and found.cache_info()

    x, w = torch.arange(3.0), torch.ones(3)
    pure = torch.compile(lambda a, k=2: torch.sin(a) * k + w if a.sum() > 0 else -a)
    for given in (x, -x, x, x):
        assert torch.equal(pure(given), torch.sin(given) * 2 + w if given.sum() > 0 else -given)
    assert program(pure)["recorded"] == 2 and program(pure)["hits"] >= 2
    w.add_(1)
    assert torch.equal(pure(x), torch.sin(x) * 2 + 2) and torch.equal(pure(x, 3), torch.sin(x) * 3 + 2)


def test_a_compiled_function_that_is_not_pure_runs_as_it_is():
    calls, x = [], torch.ones(3)

    @torch.compile(dynamic=True)
    def noting(a):
        calls.append(1)
        return a * 2

    @torch.compile
    def drawing(a):
        return a + torch.rand(3)

    @torch.compile
    def writing(a):
        a += 1
        return a * 2

    @torch.compile
    def aliasing(a):
        return a.view(3, 1)

    noting(x), noting(x)
    torch.manual_seed(0)
    first, second = drawing(x), drawing(x)
    torch.manual_seed(0)
    assert len(calls) == 2 and torch.equal(first, x + torch.rand(3)) and torch.equal(second, x + torch.rand(3))
    assert writing(x).tolist() == [4.0] * 3 and writing(x).tolist() == [6.0] * 3 and x.tolist() == [3.0] * 3
    aliasing(x)
    aliasing(x)[0] = 9
    assert x[0] == 9
    leaf = torch.ones(3, requires_grad=True)
    noting(leaf).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 3
    layer = torch.nn.Linear(2, 2)
    assert torch.compile(layer) is layer
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.compile(noting, speed=3)


def test_what_scripts_seldom_need_is_not_imported():
    import subprocess

    code = "import sys, functrace.torch as t; print([m for m in sys.modules if m.startswith('functrace.torch.') and m.count('.') == 2])"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("func", "_serialization", "nn", "optim", "utils"):
        assert f"'functrace.torch.{name}'" not in modules
    code = "import sys, torch; torch.tensor(1.); print([m for m in ('importlib.abc', 'tempfile', 'functrace.jit') if m in sys.modules])"
    run = [sys.executable, "-m", "functrace.torch", "-c", code]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"
    assert torch.autograd.Function is not None and torch.func.grad is not None


INDICES = """x.argmax() x.argmin(1) x.argsort() x.sort()[1] x.topk(2)[1] x.topk(1)[1] x.max(1)[1] x.min(0)[1] x.median(1)[1] x.mode(1)[1] x.kthvalue(1)[1]
x.cummax(1)[1] x.nonzero() torch.where(x>1)[0] torch.argwhere(x) x.count_nonzero() torch.unique(x,return_inverse=True)[1] (x>1).sum()
torch.unique(x,return_counts=True)[1] torch.unique_consecutive(x,return_inverse=True)[1] torch.unique_consecutive(x,return_counts=True)[1] i.bincount()
x.multinomial(1) x.multinomial(2) torch.unravel_index(i,(2,3))[1] F.max_pool1d(x,2,return_indices=True)[1] F.adaptive_max_pool1d(x,2,return_indices=True)[1]
i.to(torch.int32).trace() i.short().nansum() i[0].repeat_interleave(i[0]) i[0].repeat_interleave() pack(x.T,[3,1]).batch_sizes
unpack(pack(x,[1,3],True,False))[1] pack(x,[1,3],True,False).sorted_indices F.embedding_bag(i[0],x,i[0]).long()"""


@pytest.mark.parametrize("call", INDICES.split())
def test_indices_and_counts_have_64_bits_on_machines_of_32_too(call):
    """Where NumPy's own have as many bits as an address."""
    rnn, x, i = torch.nn.utils.rnn, torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]), torch.tensor([[0, 1], [1, 0]])
    i = i if "bincount" not in call else i[0]
    names = {"F": torch.nn.functional, "x": x, "i": i, "torch": torch, "pack": rnn.pack_padded_sequence, "unpack": rnn.pad_packed_sequence}
    assert eval(call, names).dtype is torch.int64


def test_equal_elements_of_a_long_tensor_stay_in_order():
    x = torch.arange(100_000) // 2
    assert torch.equal(x.sort()[1], torch.arange(100_000))
