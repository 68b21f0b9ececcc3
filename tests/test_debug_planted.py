"""Planted NaNs and infinities, one a function, on the line that is marked: in every mode, the debugger names that line."""

import concurrent.futures
import inspect
import re
import threading

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.debug import debug_infs, debug_nans
from functrace.errors import NonFiniteError

X = np.array([1.0, 0.0, 2.0])
CASES = {}


def case(run, debug=debug_nans):
    """A planted case, and how it is run."""

    def enter(f):
        CASES[f.__name__] = f, run, debug
        return f

    return enter


def G(f):
    return ft.grad(f)(X)


@case(G)
def fwd_logsumexp_by_hand(x):
    z = np.exp(x * 1000.0)
    p = z / np.sum(z)  # here
    return p[0]


@case(G)
def bwd_arccos(x):
    y = np.arccos(x[0])  # here
    return y * 0.0


@case(G)
def bwd_norm_hand_rows(x):
    r = np.sqrt((x[:, None] - x[None, :]) ** 2)  # here
    return np.sum(r * 1.0)


@case(G)
def in_helper(x):
    def helper(v):
        a = v - 2.0
        return np.log(a)  # here

    return np.sum(helper(x))


@case(lambda f: ft.hessian(f)(X))
def second_order_power(x):
    y = x[1] ** 1.5  # here
    return y * 0.0 + np.sum(x**2)


@case(lambda f: ft.hessian(f)(X))
def second_order_abs(x):
    y = np.sqrt(x[1] ** 4 + 0.0 * x[0])  # here
    return y


@case(lambda f: ft.grad(ft.grad(lambda t: f(t * X)))(1.0))
def grad_of_grad(t):
    y = np.sqrt(t[1] * t[1])  # here
    return y


@case(lambda f: ft.jit(ft.grad(f))(X))
def jit_of_grad(x):
    y = np.log(x)
    return np.sum(y * 0.0 * x)  # here


@case(lambda f: ft.grad(ft.jit(f))(X))
def grad_of_jit(x):
    z = x * 2
    return np.sum(np.arctanh(z))  # here


@case(lambda f: ft.jit(f)(X))
def jit_alone(x):
    z = x - 1
    return np.sum(np.log(z))  # here


@case(G)
def in_scan_carry(x):
    def step(c, v):
        c = c * v - 1.0
        c = np.sqrt(c)  # here
        return c, c

    return ft.scan(step, x[0], x)[0]


@case(G)
def in_scan_backward(x):
    def step(c, v):
        c = c + np.sqrt(v)  # here
        return c, c * 0.0

    c, ys = ft.scan(step, x[0], x)
    return np.sum(ys)


@case(lambda f: ft.vmap(f)(np.stack([X, X])))
def vmap_forward(x):
    y = x[1] - 1
    return np.log(y)  # here


@case(lambda f: ft.vmap(ft.grad(f))(np.stack([X + 1, X])))
def vmap_of_grad(x):
    y = np.sqrt(x[1])  # here
    return y * 0.0


@case(lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(np.stack([x, x]))))(X))
def grad_of_vmap(x):
    y = np.sqrt(x[1])  # here
    return y * 0.0


@case(lambda f: ft.jacfwd(f)(X))
def forward_mode(x):
    y = np.sqrt(x)  # here
    return y * 0.0


@case(lambda f: ft.jvp(f, (X,), (np.ones(3),)))
def jvp_value(x):
    y = x - 1.0
    return np.arcsin(y * 3)  # here


@case(lambda f: ft.linearize(f, X)[1](np.ones(3)))
def linearized(x):
    y = np.sqrt(x)
    return y * 0.0  # here


@case(lambda f: ft.vjp(f, X)[1](np.array([0.0, 0.0, 0.0])))
def pullback_of_zero(x):
    return np.sqrt(x)  # here


@case(G)
def in_checkpoint(x):
    @ft.checkpoint
    def g(v):
        return np.sqrt(v) * 0.0  # here

    return np.sum(g(x))


@case(G)
def in_cond(x):
    return ft.cond(x[0] > 0, lambda v: np.log(v - 1.5), lambda v: v, x).sum()  # here


@case(G)
def in_while(x):
    def body(s):
        i, v = s
        return i + 1, np.sqrt(v - 0.6)  # here

    return ft.while_loop(lambda s: s[0] < 3, body, (0, x[0]))[1]


@case(G)
def inplace_write(x):
    y = x * 1.0
    y[0] = np.log(x[1] - 1.0)  # here
    return np.sum(y)


@case(G)
def nan_constant(x):
    w = np.array([1.0, np.nan, 0.0])
    return np.sum(x * w)  # here


@case(G)
def inf_minus_inf(x):
    y = np.exp(x * 1000)
    return np.sum(y[0] - y[2])  # here


@case(lambda f: list(concurrent.futures.ThreadPoolExecutor(2).map(lambda v: ft.grad(f)(v), [X + 1, X])))
def in_pool(x):
    z = np.sqrt(x - 1.0)  # here
    return np.sum(z)


def _thread(f):
    errors = []

    def run():
        try:
            ft.grad(f)(X)
        except NonFiniteError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise errors[0]


@case(_thread)
def in_thread(x):
    y = x * 3
    return np.sum(np.log(y - 4))  # here


@case(G)
def lambda_in_vmap(x):
    f = lambda v: np.log(v - 1.0)  # here
    return np.sum(ft.vmap(f)(x))


@case(G)
def linalg(x):
    a = np.outer(x, x)
    s = np.linalg.det(a)
    return np.log(s - 1.0)  # here


@case(G)
def svd_zero(x):
    a = np.diag(x)
    return np.sum(np.sqrt(np.linalg.eigvalsh(a - np.eye(3))))  # here


@case(G)
def custom_rule(x):
    @ft.custom_vjp
    def f(v):
        return v * 2

    f.defvjp(lambda v: (v * 2, v), lambda v, g: (g / (v - v),))  # here
    return np.sum(f(x) * 0.0)


@case(G, debug_infs)
def inf_backward(x):
    y = np.sqrt(x)  # here
    return np.sum(y)


@case(lambda f: ft.hessian(f)(X), debug_infs)
def inf_second(x):
    return np.sum(x**1.5)  # here


def T(f):
    f(torch.tensor([1.0, 0.0, 2.0], requires_grad=True)).backward()


@case(T)
def t_forward(x):
    y = x - 1
    return torch.log(y).sum()  # here


@case(T)
def t_backward(x):
    y = torch.sqrt(x)  # here
    return (y * 0).sum()


@case(T)
def t_module(x):
    lin = torch.nn.Linear(3, 2)
    with torch.no_grad():
        lin.weight.fill_(float("inf"))
    return lin(x - x).sum()  # here


@case(T)
def t_inplace(x):
    y = x * 1.0
    y.sub_(1.0)
    y.log_()  # here
    return y.sum()


@case(lambda f: torch.func.grad(f)(torch.tensor([1.0, 0.0, 2.0])))
def t_func(x):
    y = torch.sqrt(x)  # here
    return (y * 0).sum()


def T2(f):
    x = torch.tensor([1.0, 0.0, 2.0], requires_grad=True)
    y = f(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    g.sum().backward()


@case(T2)
def t_second(x):
    y = x**1.5  # here
    return (y * 0).sum()


@pytest.mark.parametrize("name", CASES)
def test_the_line_of_a_planted_case_is_named(name):
    f, run, debug = CASES[name]
    lines, first = inspect.getsourcelines(f)
    wanted = first + next(k for k, line in enumerate(lines) if "# here" in line)
    with pytest.raises(NonFiniteError) as caught, debug():
        run(f)
    message = str(caught.value)
    assert re.search(r"\.py:(\d+),", message)[1] == str(wanted), message
    assert len(message.splitlines()) <= 8, message


def test_a_jitted_function_gives_under_a_debugger_what_it_gives_without():
    @ft.jit
    def f(x, k, name="a"):
        return {name: x * 2 if x[0] > 0 else x, "k": k, "n": 3}

    plain = f(X, 2, name="b")
    with debug_nans():
        seen = f(X, 2, name="b")
    assert repr(plain) == repr(seen)
    scaled = ft.jit(lambda x, by: x * {2.0: 3.0}[by], static_argnums=1)
    with debug_nans():
        assert scaled(X, 2.0).tolist() == [3.0, 0.0, 6.0]
        assert scaled(X.astype(np.float32), by=2.0).dtype == np.float32
        assert type(ft.jit(np.sin)(0.5)) is np.float64
        assert ft.jit(lambda n: n + 1)(np.arange(2)).tolist() == [1, 2]
