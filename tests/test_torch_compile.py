"""`torch.compile`: what comes out is what the function gives, whatever it does and whoever calls it."""

import copy
import functools
import math

import pytest

import functrace.torch as torch
from functrace import errors
from functrace.torch import nn


def scaled(x, k=2):
    return x.sin() * k if x.sum() > 0 else x


def forms(x):
    return {"a": x * 2, "b": (x, [x.sum()])}


def noisy(x):
    return x + torch.rand(3)


def text(x, what):
    return x * len(what)


SEEN = []


def seen(x):
    SEEN.append(1)
    return x * 2


@pytest.mark.parametrize(
    "function, args",
    [
        (scaled, (torch.ones(3),)),
        (scaled, (-torch.ones(3),)),
        (scaled, (torch.ones(3), 5)),
        (functools.partial(scaled, k=3), (torch.ones(2),)),
        (functools.partial(text, what="four"), (torch.ones(2),)),
        (lambda x: torch.relu(x).cumsum(0), (torch.tensor([-1.0, 2.0]),)),
        (lambda x: x.clone().relu_(), (torch.tensor([-1.0, 2.0]),)),
        (torch.sin, (torch.ones(1),)),
        (text, (torch.ones(1), "abc")),
        (lambda xs: xs[0] + xs[1], ([torch.ones(1), torch.ones(1)],)),
    ],
)
def test_results_are_the_functions_own(function, args):
    compiled = torch.compile(function)
    for _ in range(3):
        assert torch.equal(compiled(*args), function(*args))


def test_results_keep_their_form():
    compiled, x = torch.compile(forms), torch.ones(2)
    for _ in range(2):
        got = compiled(x)
        assert got["a"].tolist() == [2, 2] and got["b"][0].tolist() == [1, 1] and got["b"][1][0] == 2


def test_gradients_and_random_numbers_are_the_functions_own():
    x = torch.ones(3, requires_grad=True)
    torch.compile(scaled)(x).sum().backward()
    assert torch.equal(x.grad, 2 * torch.ones(3).cos())
    compiled = torch.compile(noisy)
    torch.manual_seed(0)
    plain = [noisy(torch.zeros(3)) for _ in range(3)]
    torch.manual_seed(0)
    assert all(torch.equal(compiled(torch.zeros(3)), p) for p in plain)


def plain(x, k=2):
    return torch.sin(x) * len([math.pi, k]) + math.sqrt(4.0)


def from_names(x):
    return sine(x) + abs(-1.0)


sine, set_default = torch.sin, torch.set_default_dtype


@pytest.mark.parametrize("function", [plain, from_names, scaled, lambda x: plain(x) * 2])
def test_what_is_pure_becomes_a_program(function):
    compiled, x = torch.compile(function), torch.ones(2)
    assert torch.equal(compiled(x), compiled(x))
    assert None not in compiled.programs.values() and len(compiled.programs) == 1


CALLS = 0


def counted(x):
    global CALLS  # noqa: PLW0603 (what is looked at)
    CALLS += 1
    return x * 2


def nested(x):
    return (lambda t: SEEN.append(1) or t * 2)(x)


note = SEEN.append


def noted(x):
    note(1)
    return x * 2


def kept(x, seen=SEEN):
    seen.append(1)
    return x * 2


def wide(x):
    set_default(torch.float64)
    return x * 2


@pytest.mark.parametrize(
    "function, argument, effect",
    [
        (seen, torch.ones(1), lambda _: (len(SEEN), SEEN.clear())[0]),
        (nested, torch.ones(1), lambda _: (len(SEEN), SEEN.clear())[0]),
        (kept, torch.ones(1), lambda _: (len(SEEN), SEEN.clear())[0]),
        (noted, torch.ones(1), lambda _: (len(SEEN), SEEN.clear())[0]),
        (wide, torch.ones(1), lambda _: (torch.get_default_dtype(), set_default(torch.float32))[0]),
        (lambda xs: xs.append(xs[0]) or xs[0] * 2, [torch.ones(1)], len),
        (lambda xs: xs.reverse() or xs[0] * 2, [torch.ones(1), torch.zeros(1)], lambda xs: xs[0].item()),
        (lambda xs: xs.update(b=xs["a"]) or xs["a"] * 2, {"a": torch.ones(1)}, len),
        (lambda xs: xs.update(a=xs["a"] * 2) or xs["a"] * 2, {"a": torch.ones(1)}, lambda xs: xs["a"].item()),
    ],
)
def test_side_effects_happen_at_each_call(function, argument, effect):
    compiled = torch.compile(function)
    for _ in range(3):
        given, same = copy.copy(argument), copy.copy(argument)
        function(same)
        expected = effect(same)
        compiled(given)
        assert effect(given) == expected


def counter():
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x * n

    return count


def test_variables_outside_are_written_at_each_call():
    compiled, before = torch.compile(counted), CALLS
    for _ in range(3):
        compiled(torch.ones(1))
    assert before + 3 == CALLS
    compiled = torch.compile(counter())
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [1, 2, 3]


WEIGHT = torch.ones(3, requires_grad=True)


def overwritten(x):
    x[0] = 5.0
    return x * 2


def added(x):
    x += 1
    return x * 2


def power(x, n=3):
    return x if n == 0 else x * power(x, n - 1)


@pytest.mark.parametrize(
    "function",
    [
        overwritten,
        added,
        power,
        lambda x: x,
        lambda x: x[1:],
        lambda x: x * WEIGHT,
        lambda x: x * torch.ones(3, requires_grad=True),
        lambda x: x * x.sum().item(),
        lambda x: torch.nn.functional.gumbel_softmax(x, -1),
        lambda x: x.to(x.dtype),
        lambda x: x.detach(),
    ],
)
def test_results_are_views_or_need_gradients_as_the_functions_do(function):
    compiled = torch.compile(function)
    for k in range(3):
        inputs, outs = [torch.arange(3.0) * (k + 1) for _ in range(2)], []
        for f, x in zip((function, compiled), inputs):
            torch.manual_seed(k)
            outs.append(f(x))
        assert torch.equal(*outs) and outs[0].requires_grad == outs[1].requires_grad
        for out in outs:
            out.detach()[0] = 9.0
        assert torch.equal(*inputs)


def test_results_that_are_no_tensors():
    compiled = torch.compile(lambda x: (x * 2, x.dtype, len(x)))
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == (torch.float32, 2)


def test_numbers_and_texts_beside_tensors_stay_what_they_are():
    compiled = torch.compile(lambda x: (x * 2, len(x), 0.5 if x.sum() > 0 else True, "text"))
    for x in (torch.ones(2), -torch.ones(2), torch.ones(2)):
        out = compiled(x)
        assert [type(part) for part in out] == [torch.Tensor, int, float if x[0] > 0 else bool, str]
        assert torch.equal(out[0], x * 2) and out[1] == 2 and out[3] == "text"
    assert None not in compiled.programs.values()


def test_results_that_are_views_of_each_other_are_so_in_each_call():
    def pair(x):
        y = x * 2
        return y, y[0]

    compiled = torch.compile(pair)
    for _ in range(3):
        whole, part = compiled(torch.ones(2))
        part.add_(1)
        assert whole.tolist() == [3, 2]


TOTAL, ROW = torch.zeros(1), torch.zeros(2)


def totalled(x):
    TOTAL.add_(x.sum())
    return x * 2


def filled(x):
    ROW[0] += 1
    return x * 2


def test_tensors_outside_are_written_at_each_call():
    compiled = torch.compile(totalled)
    for k in range(3):
        assert compiled(torch.ones(1)).item() == 2 and TOTAL == k + 1
    compiled = torch.compile(filled)
    with pytest.warns(errors.JitWarning, match=r"jit\(filled\) runs without"):
        compiled(torch.ones(1))
    for k in range(3):
        assert compiled(torch.ones(1)).item() == 2 and ROW[0] == k + 2


class Marked(torch.Tensor):
    pass


def test_results_keep_their_class():
    compiled = torch.compile(lambda x: x.as_subclass(Marked) * 2)
    assert [type(compiled(torch.ones(1))) for _ in range(2)] == [Marked, Marked]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.calls = nn.Parameter(torch.ones(3)), 0

    def forward(self, x):
        self.calls += 1
        return x * self.w

    @torch.compile
    def twice(self, x):
        return self.forward(x) * 2


def test_modules_and_methods():
    module = Counting()
    compiled = torch.compile(module)
    assert compiled(torch.ones(3)).tolist() == [1, 1, 1] and module.calls == 1
    assert module.twice(torch.ones(3)).tolist() == [2, 2, 2] and module.calls == 2
    with torch.no_grad():
        module.w.mul_(3)
    assert compiled(torch.ones(3)).tolist() == [3, 3, 3]


def test_as_a_decorator_with_options():
    @torch.compile(fullgraph=True, mode="max-autotune")
    def double(x):
        return x * 2

    assert double(torch.ones(1)) == 2 and not torch.compiler.is_compiling()
    assert torch.compiler.disable(double) is double is torch.compiler.disable(recursive=False)(double)


@pytest.mark.parametrize("what", [3, None, "text"])
def test_only_functions_are_compiled(what):
    if what is None:
        assert callable(torch.compile(None))
        return
    with pytest.raises(AssertionError, match="callable"):
        torch.compile(what)


def test_errors_are_the_functions_own():
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        torch.compile(lambda x, y: x @ y)(torch.ones(2), torch.ones(3))


class Shifted:
    def __init__(self):
        self.by = torch.ones(1)

    @torch.compile
    def shift(self, x):
        return x + self.by


def test_what_an_object_holds_may_change():
    shifted = Shifted()
    assert [shifted.shift(torch.zeros(1)).item() for _ in range(3)] == [1, 1, 1]
    shifted.by = torch.full((1,), 5.0)
    assert shifted.shift(torch.zeros(1)) == 5


SCALE, COUNT, ROWS = torch.tensor(2.0), torch.tensor(3), torch.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(SCALE),
        lambda x: x * (SCALE + 1),
        lambda x: x * 2 if SCALE > 5 else x * 3,
        lambda x: x[: int(COUNT)].sum(),
        lambda x: x + ROWS.sum(),
        lambda x: sum([x * float(row) for row in ROWS]),
    ],
)
def test_numbers_of_tensors_that_are_read_may_change(function):
    compiled, x, before = torch.compile(function), torch.arange(6.0), [t.clone() for t in (SCALE, COUNT, ROWS)]
    try:
        for _ in range(3):
            for _ in range(2):
                assert torch.equal(compiled(x), function(x))
            for tensor in (SCALE, COUNT, ROWS):
                tensor.mul_(4)
            x.add_(1)
        (program,) = compiled.programs.values()
        assert program.cache_info()["hits"] == 3 == program.cache_info()["recorded"]
    finally:
        for tensor, was in zip((SCALE, COUNT, ROWS), before):
            tensor.copy_(was)


def test_a_tensor_that_is_read_may_be_given_other_data_or_come_to_need_gradients():
    w, x = torch.ones(2), torch.ones(2)
    scaled = torch.compile(lambda x: x * w)
    for _ in range(2):
        assert scaled(x).tolist() == [1, 1]
    w.data = torch.full((2,), 3.0)
    assert scaled(x).tolist() == [3, 3] and not scaled(x).requires_grad
    w.requires_grad_()
    scaled(x).sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_a_number_that_is_another_in_each_call_makes_no_more_programs():
    times = torch.compile(lambda x, k: x * k)
    for k in range(100):
        assert times(torch.ones(1), k / 2) == k / 2
    assert len(times.programs) == 64
    assert times(torch.ones(1), 1.5) == 1.5


def test_constants_are_told_apart_by_their_sign_and_a_nan_is_one():
    times = torch.compile(lambda x, k: x * k)
    signs = [torch.signbit(times(torch.ones(1), k)).item() for k in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    for _ in range(3):
        assert times(torch.ones(1), float("nan")).isnan()
    assert len(times.programs) == 3


def test_a_module_compiles_itself_as_what_it_is():
    layer = torch.nn.Linear(2, 1)
    assert layer.compile(fullgraph=True) is None and layer(torch.ones(1, 2)).shape == (1, 1)
