"""What people do wrong, and what they are told: whole tracebacks, as Python prints them, held against `snapshots/mistakes.txt`.

Each mistake is a script. The last frame of the traceback must be the script's own line, marked `# here`; no frame is functrace's; all of it
fits in 12 lines. `python -m tests.test_mistakes` writes the snapshots anew: read the difference before you keep it.
"""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import warnings
from unittest import mock

import pytest

HERE = pathlib.Path(__file__).parent
SNAPSHOTS = HERE / "snapshots" / "mistakes.txt"
LINES = 12

NUMPY = "import numpy as np\nimport functrace as ft\n\n"
TORCH = "import functrace.torch as torch\n\n"

MISTAKES = {
    # grad
    "the gradient of integers": "x = np.arange(3)\nft.grad(np.sum)(x)  # here",
    "the gradient of a vector": "def squares(x):\n    return x**2\n\nft.grad(squares)(np.ones(3))  # here",
    "a value in place of the function": "def loss(x):\n    return np.sum(x**2)\n\nft.grad(loss(2.0))(2.0)  # here",
    "no return": "def loss(x):\n    total = np.sum(x**2)\n\nft.grad(loss)(np.ones(3))  # here",
    "two results": "def loss(x):\n    return np.sum(x**2), x\n\nft.grad(loss)(np.ones(3))  # here",
    "has_aux without aux": "def loss(x):\n    return np.sum(x**2)\n\nft.grad(loss, has_aux=True)(np.ones(3))  # here",
    "a function of math": "import math\n\ndef area(r):\n    return math.pi * math.pow(r, 2)  # here\n\nft.grad(area)(1.0)",
    "float of a traced value": "def loss(x):\n    scale = float(x[0])  # here\n    return scale * x.sum()\n\nft.grad(loss)(np.ones(3))",
    "np.array of traced values": "def loss(x):\n    return np.array([x, 2 * x]).sum()  # here\n\nft.grad(loss)(1.0)",
    "a traced value in a plain array": (
        "def powers(x):\n    out = np.zeros(3)\n    for k in range(3):\n        out[k] = x**k  # here\n    return out.sum()\n\nft.grad(powers)(2.0)"
    ),
    "argnums past the end": "def line(x, slope):\n    return slope * x\n\nft.grad(line, argnums=2)(1.0, 2.0)  # here",
    "argnums as a name": "def line(x, slope):\n    return slope * x\n\nft.grad(line, argnums='slope')(1.0, 2.0)  # here",
    "argnames of no argument": "def line(x, slope):\n    return slope * x\n\nft.grad(line, argnames='slop')(1.0, 2.0)  # here",
    "a string among the parameters": "def loss(p):\n    return p['w'] ** 2\n\nft.grad(loss)({'name': 'layer', 'w': 1.0})  # here",
    "a complex loss": "def loss(x):\n    return np.sum(np.exp(1j * x))\n\nft.grad(loss)(np.ones(3))  # here",
    "a value kept from a run": (
        "kept = []\n\ndef loss(x):\n    kept.append(x * 2)\n    return np.sum(x)\n\nft.grad(loss)(np.ones(3))\nprint(kept[0] + 1)  # here"
    ),
    "a method of a value kept": (
        "kept = []\n\ndef loss(x):\n    kept.append(x * 2)\n    return np.sum(x)\n\nft.grad(loss)(np.ones(3))\nprint(kept[0].sum())  # here"
    ),
    "a function without a rule": "ft.grad(lambda x: np.busday_count(x, x))(1.0)  # here",
    "a keyword without a rule": "def loss(x):\n    return np.sort(x, order='size').sum()  # here\n\nft.grad(loss)(np.ones(3))",
    "an argument too few": "def loss(w, x):\n    return np.sum(w * x)\n\nft.grad(loss)(np.ones(3))  # here",
    "a misspelt key": "def loss(p):\n    return np.sum(p['W'] ** 2)  # here\n\nft.jit(ft.vmap(ft.grad(loss)))({'w': np.ones((2, 3))})",
    "the point in place of argnums": "def loss(x):\n    return np.sum(x**2)\n\nft.grad(loss, np.ones(3))  # here",
    "the batch in place of in_axes": "ft.vmap(np.sin, np.ones(3))  # here",
    "an option of another name": "def line(x, slope):\n    return slope * x\n\nft.grad(line, argnum=1)(1.0, 2.0)  # here",
    "the number of a value kept": (
        "losses = []\n\ndef loss(x):\n    losses.append(np.sum(x**2))\n    return losses[-1]\n\nft.grad(loss)(np.ones(3))\n"
        "print(float(losses[0]))  # here"
    ),
    "the least of values kept": (
        "losses = []\n\ndef loss(x):\n    losses.append(np.sum(x**2))\n    return losses[-1]\n\nft.grad(loss)(np.ones(3))\n"
        "ft.grad(loss)(np.zeros(3))\nprint(min(losses))  # here"
    ),
    "a filled array": "def loss(x):\n    rows = np.zeros(3)\n    rows.fill(x)  # here\n    return rows.sum()\n\nft.grad(loss)(1.0)",
    "a complex number of two": "def loss(x, y):\n    return abs(complex(x, y))  # here\n\nft.grad(loss)(1.0, 2.0)",
    "a test of NumPy's": "def loss(x):\n    np.testing.assert_allclose(x, 1.0)  # here\n    return np.sum(x**2)\n\nft.grad(loss)(np.ones(3))",
    "a name of PyTorch's": "def loss(x):\n    return (x.requires_grad_() ** 2).sum()  # here\n\nft.grad(loss)(np.ones(3))",
    # vjp, jvp and their kin
    "a cotangent of the wrong shape": "out, pullback = ft.vjp(np.sin, np.ones(3))\npullback(np.ones(2))  # here",
    "a cotangent of the wrong structure": "out, pullback = ft.vjp(lambda x: (x, 2 * x), np.ones(3))\npullback(np.ones(3))  # here",
    "jvp without tuples": "ft.jvp(np.sin, np.ones(3), np.ones(3))  # here",
    "hvp, called like grad": "ft.hvp(lambda x: np.sum(x**3))(np.ones(3), np.ones(3))  # here",
    "a tangent of the wrong shape": "ft.jvp(np.sin, (np.ones(3),), (1.0,))  # here",
    "a tangent too many": "ft.jvp(np.sin, (np.ones(3),), (np.ones(3), np.ones(3)))  # here",
    "hvp without tuples": "ft.hvp(np.sum, np.ones(3), np.ones(3))  # here",
    "a Jacobian of complex numbers": "ft.jacobian(lambda z: z**2)(np.array([1 + 2j]))  # here",
    # arguments and constants that are no plain arrays
    "a masked array": "ft.grad(np.sum)(np.ma.masked_array([1.0, 2.0], [False, True]))  # here",
    "a masked array as a constant": (
        "data = np.ma.masked_array([1.0, 2.0], [False, True])\n\ndef loss(x):\n    return np.sum(x * data)  # here\n\nft.grad(loss)(np.ones(2))"
    ),
    "a random number around a traced mean": "ft.grad(lambda x: np.random.normal(x, 1.0))(3.0)  # here",
    "a traced value in an old format": "ft.vmap(lambda x: print('%.3f' % x) or x)(np.ones(3))  # here",
    # vmap
    "a list that is batched": "ft.vmap(lambda x: x**2)([1.0, 2.0])  # here",
    "in_axes that is no tuple": "ft.vmap(lambda p: p['w'] * p['b'], in_axes={'w': 0, 'b': None})({'w': np.ones(3), 'b': 2.0})  # here",
    "batches of two sizes": "ft.vmap(lambda a, b: a @ b)(np.ones((3, 2)), np.ones((4, 2)))  # here",
    "a scalar that is batched": "ft.vmap(lambda w, x: w * x)(2.0, np.ones(3))  # here",
    "in_axes for another number of arguments": "ft.vmap(lambda w, x: w * x, in_axes=(None, 0, 0))(2.0, np.ones(3))  # here",
    "out_axes=None for what differs": "ft.vmap(lambda x: x**2, out_axes=None)(np.ones(3))  # here",
    "branches of two shapes": "def f(x):\n    return x if x > 0 else np.stack([x, x])\n\nft.vmap(f)(np.array([1.0, -1.0]))  # here",
    # shapes, dtypes, indices: NumPy's errors, with what ran
    "shapes that do not broadcast": "def loss(x, y):\n    return np.sum((x - y) ** 2)  # here\n\nft.grad(loss)(np.ones(3), np.ones(4))",
    "a product of the wrong shapes": "def loss(w, x):\n    return np.sum(np.tanh(x @ w))  # here\n\nft.grad(loss)(np.ones(3), np.ones((5, 2)))",
    "a batched product of the wrong shapes": (
        "def loss(w, x):\n    return np.sum(np.tanh(w @ x))  # here\n\nft.vmap(ft.grad(loss), (None, 0))(np.ones((3, 3)), np.ones((5, 2)))"
    ),
    "an index past the end": "def loss(x):\n    return x[3] ** 2  # here\n\nft.grad(loss)(np.ones(3))",
    "a float as index": "def loss(x):\n    return x[1.0] ** 2  # here\n\nft.grad(loss)(np.ones(3))",
    "a reshape to another size": "def loss(x):\n    return np.sum(x.reshape(2, 2))  # here\n\nft.grad(loss)(np.ones(3))",
    "parts that do not fit together": (
        "def loss(x):\n    return np.sum(np.concatenate([x, np.ones((2, 2))]))  # here\n\nft.grad(loss)(np.ones(3))"
    ),
    "numbers that are concatenated": "def loss(x):\n    return np.sum(np.concatenate([x[0], x[1]]))  # here\n\nft.grad(loss)(np.ones(3))",
    "parts of two shapes": "def loss(x):\n    return np.sum(np.stack([x, x[:2]]))  # here\n\nft.grad(loss)(np.ones(3))",
    "an axis that is not there": "def loss(x):\n    return np.sum(np.max(x, axis=1))  # here\n\nft.grad(loss)(np.ones(3))",
    "a singular matrix": "def loss(a):\n    return np.sum(np.linalg.inv(a))  # here\n\nft.grad(loss)(np.ones((2, 2)))",
    "eigenvectors of the identity": "def loss(a):\n    return np.linalg.eigh(a)[1][0, 1]\n\nft.grad(loss)(np.eye(2))  # here",
    # in place
    "a plain array that is added to": (
        "def loss(x):\n    total = np.zeros(3)\n    total += x  # here\n    return total.sum()\n\nft.grad(loss)(np.ones(3))"
    ),
    "a result that does not fit in place": "def loss(x):\n    x += np.ones((2, 3))  # here\n    return x.sum()\n\nft.grad(loss)(np.ones(3))",
    "an array that a tape holds": (
        "data = np.ones(200_000)\n\ndef loss(x):\n    y = np.sum(x * data)\n    data[0] = 5.0  # here\n    return y\n\nft.grad(loss)(np.ones(200_000))"
    ),
    "a sum that does not fit in place": (
        "import functrace.numpy as fnp\n\ndef loss(x):\n    total = fnp.zeros(3)\n    total += np.outer(x, x)  # here\n"
        "    return np.sum(total)\n\nft.grad(loss)(np.ones(3))"
    ),
    # jit
    "the derivative of what is static": (
        "power = ft.jit(lambda x, n: x**n, static_argnums=1)\nft.grad(power, 1)(2.0, 3.0)  # here"
    ),
    "another shape, where none is allowed": (
        "double = ft.jit(lambda x: x * 2, no_retrace=True)\ndouble(np.ones(2))\ndouble(np.ones(3))  # here"
    ),
    "a static name that is not there": "ft.jit(lambda x, n: x * n, static_argnames='m')  # here",
    "a static list": "scale = ft.jit(lambda x, ks: x * ks[0], static_argnums=1)\nscale(np.ones(2), [1, 2])  # here",
    "a singular matrix in a program": (
        "@ft.jit\ndef loss(a):\n    return np.sum(np.linalg.inv(a))  # here\n\nloss(np.eye(2))\nloss(np.ones((2, 2)))"
    ),
    # rules by hand
    "no rule": "@ft.custom_vjp\ndef total(x):\n    return x.sum()\n\ntotal(np.ones(3))  # here",
    "a rule with the wrong shape": (
        "@ft.custom_vjp\ndef total(x):\n    return x.sum()\n\ntotal.defvjp(lambda x: (x.sum(), x), lambda x, g: (g,))\nft.grad(total)(np.ones(3))  # here"
    ),
    "a rule with too few cotangents": (
        "@ft.custom_vjp\ndef dot(x, y):\n    return x @ y\n\n"
        "dot.defvjp(lambda x, y: (x @ y, y), lambda y, g: (g * y,))\nft.grad(dot)(np.ones(3), np.ones(3))  # here"
    ),
    "a forward rule without residuals": (
        "@ft.custom_vjp\ndef total(x):\n    return x.sum()\n\ntotal.defvjp(lambda x: x.sum(), lambda x, g: (g + 0 * x,))\nft.grad(total)(np.ones(3))  # here"
    ),
    "a rule with its arguments swapped": (
        "@ft.custom_vjp\ndef dot(x, y):\n    return x @ y\n\n"
        "def back(ct, residuals):\n    return ct * residuals[1], ct * residuals[0]  # here\n\n"
        "dot.defvjp(lambda x, y: (x @ y, (x, y)), back)\nft.grad(dot)(np.ones(3), np.ones(3))"
    ),
    "a rule for arguments that are not differentiated": (
        "def apply(f, x):\n    return f(x)\n\napply = ft.custom_vjp(apply, nondiff_argnums=0)\n"
        "apply.defvjp(lambda f, x: (f(x), x), lambda x, g: (g,))\nft.grad(lambda x: apply(np.sin, x))(1.0)  # here"
    ),
    "a forward rule that takes no tuples": (
        "@ft.custom_jvp\ndef sine(x):\n    return np.sin(x)\n\n@sine.defjvp\ndef rule(x, t):\n    return sine(x), t / x  # here\n\n"
        "ft.grad(sine)(1.0)"
    ),
    "a rule that is not linear": (
        "@ft.custom_jvp\ndef sine(x):\n    return np.sin(x)\n\n"
        "sine.defjvp(lambda xs, ts: (sine(*xs), np.cos(xs[0]) * ts[0] ** 2))\nft.grad(sine)(1.0)  # here"
    ),
    "a rule that closes over an argument": (
        "def loss(x, w):\n    @ft.custom_vjp\n    def scaled(x):\n        return x * w\n\n"
        "    scaled.defvjp(lambda x: (x * w, None), lambda _, g: (g * w,))\n    return scaled(x)  # here\n\nft.grad(loss, (0, 1))(1.0, 2.0)"
    ),
    "a wrong rule": (
        "@ft.custom_jvp\ndef cube(x):\n    return x**3\n\ncube.defjvp(lambda xs, ts: (cube(*xs), 2 * xs[0] ** 2 * ts[0]))\n"
        "ft.check_grads(cube, 1.0, order=1)  # here"
    ),
    "a checkpoint that is not repeatable": (
        "calls = []\n\n@ft.checkpoint\ndef fickle(x):\n    calls.append(1)\n    return x * len(calls)\n\nft.grad(fickle)(1.0)  # here"
    ),
    # control flow
    "a carry that grows": "ft.scan(lambda carry, x: (np.append(carry, x), x), np.zeros(1), np.arange(3.0))  # here",
    "a step that returns one value": "ft.scan(lambda carry, x: carry + x, 0.0, np.arange(3.0))  # here",
    "a step that takes one argument": "ft.scan(lambda carry: (carry, carry), 0.0, np.arange(3.0))  # here",
    "results of two shapes": (
        "def step(carry, x):\n    return carry, x if x > 0 else np.stack([x, x])\n\nft.scan(step, 0.0, np.array([1.0, -1.0]))  # here"
    ),
    "sequences of two lengths": "ft.scan(lambda carry, xs: (carry, xs[0]), 0.0, (np.ones(3), np.ones(4)))  # here",
    "branches that disagree": (
        "def f(x):\n    return ft.cond(x.sum() > 0, lambda v: v, lambda v: v.sum(), x)  # here\n\nft.vmap(f)(np.array([[1.0], [-1.0]]))"
    ),
    "a condition that is an array": "ft.while_loop(lambda c: c < 3, lambda c: c + 1, np.zeros(2))  # here",
    "a loop over two values": "ft.while_loop(lambda k, x: k < 3, lambda k, x: (k + 1, 2 * x), (0, 1.0))  # here",
    "a loop without a start": "ft.while_loop(lambda c: c < 3, lambda c: c + 1)  # here",
    "branches without an argument": "ft.cond(True, lambda: 1.0, lambda: 2.0, 0.0)  # here",
    "an iteration that grows": "with np.errstate(over='ignore'):\n    ft.fixed_point(lambda x: x**2, 2.0)  # here",
    "a root without a solver": "ft.implicit_root(lambda x: x**2 - 2, 1.0)  # here",
    "a body without return": "def body(c):\n    c + 1\n\nft.while_loop(lambda c: c < 3, body, 0.0)  # here",
    "steps without a length": "ft.scan(lambda carry, _: (2 * carry, carry), 1.0, None)  # here",
    "branches that are not in a list": "ft.switch(1, lambda x: x, lambda x: 2 * x, 1.0)  # here",
    "a loop whose carry grows": "ft.while_loop(lambda c: c.sum() < 3, lambda c: np.append(c, 1.0), np.ones(1))  # here",
    # trees
    "trees that differ": "ft.tree.map(lambda p, g: p - g, {'w': 1.0, 'b': 2.0}, {'w': 0.1})  # here",
    "a vector of another length": "flat, unravel = ft.ravel_pytree({'w': np.ones((2, 2)), 'b': 1.0})\nunravel(np.ones(4))  # here",
    # looking inside
    "a NaN": (
        "def loss(x):\n    return np.sum(np.log(x))  # here\n\nwith ft.debug_nans():\n    ft.grad(loss)(np.array([1.0, -1.0]))"
    ),
    "a NaN in the derivative": (
        "def loss(x):\n    return np.sum(np.sqrt(x) * 0.0)\n\nwith ft.debug_nans():\n    ft.grad(loss)(np.array([1.0, 0.0]))  # here"
    ),
    "a leak, looked for": "kept = []\nwith ft.checks():  # here\n    ft.grad(lambda x: kept.append(x * 2) or x)(1.0)",
    "a context, called like a switch": "ft.debug_nans(True)  # here",
    # arguments: of another order, of another kind, none
    "arguments in the wrong order": (
        "def loss(w, x, y):\n    return np.mean((x @ w - y) ** 2)  # here\n\nft.grad(loss)(np.ones((5, 3)), np.ones(3), np.ones(5))"
    ),
    "a list in place of an array": "def loss(w):\n    return np.sum((w - 1.0) ** 2)  # here\n\nft.grad(loss)([1.0, 2.0])",
    "a string as the argument": "ft.grad(lambda x: x**2)('3')  # here",
    "a string as an operand": "def loss(x):\n    return np.sum(x ** 'a')  # here\n\nft.grad(loss)(np.ones(3))",
    "no arguments": "ft.grad(lambda x: np.sum(x))()  # here",
    "a method that is not bound": (
        "class Model:\n    def loss(self, x):\n        return np.sum(x**2)\n\nft.grad(Model.loss)(Model(), np.ones(3))  # here"
    ),
    "a jitted method of other shapes": (
        "class Model:\n    w = np.ones(3)\n\n    @ft.jit\n    def loss(self, x):\n        return np.sum(self.w * x)  # here\n\n"
        "model = Model()\nmodel.loss(np.ones(3))\nmodel.loss(np.ones(4))"
    ),
    "the truth of an array": "def loss(x):\n    return x.sum() if x > 0 else 0.0  # here\n\nft.grad(loss)(np.ones(3))",
    "conditions that are joined by and": (
        "def loss(x):\n    return np.sum(np.where(x > 0 and x < 2, x, 0.0))  # here\n\nft.grad(loss)(np.ones(3))"
    ),
    "an element that is deleted": "def loss(x):\n    del x[0]  # here\n    return np.sum(x)\n\nft.grad(loss)(np.ones(3))",
    "item of a traced value": "def loss(x):\n    return x.sum().item()  # here\n\nft.grad(loss)(np.ones(3))",
    "tolist of a traced value": "def loss(x):\n    return sum(v**2 for v in x.tolist())  # here\n\nft.grad(loss)(np.ones(3))",
    "np.float64 of a traced value": "def loss(x):\n    return np.float64(x) ** 2  # here\n\nft.grad(loss)(1.0)",
    "a Hessian product of a vector": "ft.hvp(np.sin, (np.ones(3),), (np.ones(3),))  # here",
    "functrace.numpy on plain arrays": "import functrace.numpy as fnp\n\nfnp.reshape(np.ones(3), (2, 2))  # here",
    "explain, called like grad": "ft.explain(np.sin)(1.0)  # here",
    "a mode that is misspelt": "ft.check_grads(np.sin, 1.0, modes='reverse')  # here",
    "check_grads, called like grad": "ft.check_grads(np.sin)(np.ones(3))  # here",
    "scan with its arguments in the wrong order": "ft.scan(0.0, lambda c, x: (c + x, c), np.ones(3))  # here",
    "fori_loop with its arguments in the wrong order": "ft.fori_loop(lambda i, c: c + i, 0, 3, 0.0)  # here",
    "cond with its arguments in the wrong order": "ft.cond(lambda x: x, True, lambda x: -x, 1.0)  # here",
    # optimisers and random numbers
    "parameters in place of the optimiser's state": (
        "optimizer = ft.optim.adam(0.1)\nparams = grads = {'w': np.ones(3)}\nstate = optimizer.init(params)\n"
        "optimizer.update(grads, params, state)  # here"
    ),
    "the state of another optimiser": "state = ft.optim.sgd(0.1).init(np.ones(3))\nft.optim.adam(0.1).update(np.ones(3), state)  # here",
    "gradients of other parameters": (
        "optimizer = ft.optim.adam(0.1)\nstate = optimizer.init({'w': np.ones(3)})\noptimizer.update({'w': np.ones(3), 'b': 1.0}, state)  # here"
    ),
    "weight decay without parameters": (
        "optimizer = ft.optim.adamw(0.1)\nw = np.ones(3)\noptimizer.update(w, optimizer.init(w))  # here"
    ),
    "updates together with the state": (
        "optimizer = ft.optim.adam(0.1)\nw = np.ones(3)\nupdates = optimizer.update(w, optimizer.init(w))\n"
        "ft.optim.apply_updates(w, updates)  # here"
    ),
    "parameters for the optimiser": "ft.optim.adam({'w': np.ones(3)})  # here",
    "minimize with its arguments in the wrong order": "ft.optim.minimize(np.ones(3), lambda x: np.sum(x**2))  # here",
    "a seed in place of a key": "from functrace import random\n\nrandom.normal(0, (3,))  # here",
    # functrace.torch and the functions together
    "a tensor as the argument of grad": "from functrace.torch import ones\n\nft.grad(lambda x: (x**2).sum())(ones(3))  # here",
    "a function of tensors on a traced value": (
        "from functrace.torch import sin\n\ndef loss(x):\n    return sin(x).sum()  # here\n\nft.grad(loss)(np.ones(3))"
    ),
    # functrace.torch, with PyTorch's words
    "tensors that do not broadcast": "x = torch.ones(3, requires_grad=True)\ny = x + torch.ones(4)  # here",
    "backward of a vector": "x = torch.ones(3, requires_grad=True)\n(x * 2).backward()  # here",
    "backward twice": "x = torch.ones(3, requires_grad=True)\ny = torch.exp(x).sum()\ny.backward()\ny.backward()  # here",
    "a leaf changed in place": "x = torch.ones(3, requires_grad=True)\nx += 1  # here",
    "a saved tensor changed in place": "x = torch.ones(3, requires_grad=True)\ny = torch.exp(x)\ny.mul_(2)\ny.sum().backward()  # here",
    "a layer of another size": "net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())\nnet(torch.ones(2, 5))  # here",
    "integers that require grad": "torch.tensor([1, 2], requires_grad=True)  # here",
    "a GPU": "torch.ones(3).cuda()  # here",
    "a name that is not there": "torch.sparse_coo_tensor([[0]], [1.0])  # here",
}  # fmt: skip


def script(name):
    """The whole script of a mistake."""
    body = MISTAKES[name]
    return (TORCH if "torch." in body.replace("functrace.torch", "") else NUMPY) + body + "\n"


def printed(name, folder):
    """What Python prints when it runs the script: its standard error."""
    path = pathlib.Path(folder) / "mistake.py"
    path.write_text(script(name), encoding="utf-8")
    with mock.patch.dict(os.environ, {"NO_COLOR": "1", "PYTHON_COLORS": "0"}), warnings.catch_warnings():
        warnings.simplefilter("default")
        with contextlib.redirect_stderr(io.StringIO()) as out:
            try:
                exec(compile(script(name), str(path), "exec"), {"__name__": "__main__"})
            except Exception as error:
                error.__traceback__ = error.__traceback__.tb_next  # without the line above
                sys.__excepthook__(type(error), error, error.__traceback__)
    assert out.getvalue(), "it raised nothing"
    return out.getvalue().replace(str(path), "mistake.py")


def printed_elsewhere(name, folder, **environment):
    """What a Python of its own prints."""
    path = pathlib.Path(folder) / "mistake.py"
    path.write_text(script(name), encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if k not in ("FUNCTRACE_TRACEBACK", "PYTHONWARNINGS")}
    env |= {"PYTHONPATH": str(HERE.parent), "NO_COLOR": "1", "PYTHON_COLORS": "0", "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=env, timeout=120)
    return done.stderr.replace(str(path), "mistake.py")


def normalised(text):
    """What does not depend on the version of Python: the marks below a source line do."""
    return "\n".join(line.rstrip() for line in text.splitlines() if not re.fullmatch(r"[\s~^]+", line))


def snapshots():
    """What was printed, by name."""
    parts = re.split(r"^=== (.*) ===\n", SNAPSHOTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2]))


def entry(name, text):
    """A mistake in the file of snapshots: the script, and what is printed."""
    source = "".join(f"| {line}\n".replace("|  \n", "|\n") for line in script(name).rstrip().splitlines())
    return f"{source}\n{normalised(text)}\n\n"


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_few_lines_that_end_in_the_users(name, tmp_path):
    text = printed(name, tmp_path)
    files = re.findall(r'^  File "(.*)", line (\d+)', text, re.MULTILINE)
    line = 1 + next(k for k, source in enumerate(script(name).splitlines()) if source.endswith("# here"))
    if sys.version_info < (3, 11):  # one frame of ours stays, and there are no notes: see `edge.trim`
        files = [f for f in files if f[0] == "mistake.py"]
    elif sys.version_info < (3, 15) or name != "a traced value in an old format":  # there Python says it in its own words
        assert normalised(entry(name, text)).strip() == normalised(snapshots()[name]).strip()
    assert {f for f, _ in files} == {"mistake.py"}, text
    assert int(files[-1][1]) == line, text
    assert len(text.splitlines()) <= LINES, text


@pytest.mark.parametrize("name", MISTAKES)
def test_a_message_says_what_it_is_about(name):
    text = snapshots()[name].split("\n\n", 1)[1] if name in snapshots() else ""
    message = text[text.rindex('File "mistake.py"') :].split("\n", 2)[2]
    assert re.search(r"\[FT\d{3}, docs/errors\.md\]$", message.strip()) or not message.startswith("functrace.errors."), message
    if message.startswith("functrace.errors."):
        assert re.search(r"mistake\.py:\d+", message), f"no line: {message}"
        assert len(message.strip().splitlines()) >= 2, f"no remedy: {message}"


def test_there_are_at_least_forty_and_each_has_its_snapshot():
    assert len(MISTAKES) >= 40
    assert list(snapshots()) == list(MISTAKES)


def test_the_whole_traceback_can_be_had(tmp_path):
    short, whole = (printed_elsewhere("a function of math", tmp_path, **env) for env in ({}, {"FUNCTRACE_TRACEBACK": "full"}))
    assert short == printed("a function of math", tmp_path)
    assert "functrace/core/tape.py" in whole
    assert len(whole.splitlines()) > 2 * len(short.splitlines())


def test_the_line_is_the_users_however_the_library_is_found():
    """As by `sys.path.append("..")` in a notebook."""
    code = f"import sys; sys.path.insert(0, {str(HERE / '..')!r}); import functrace as ft; ft.grad(lambda x: float(x))(1.0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, timeout=120)
    assert "At <string>:1, in <lambda>." in done.stderr


def main():
    """Write all snapshots."""
    import tempfile

    text = ""
    for name in MISTAKES:
        with tempfile.TemporaryDirectory() as folder:  # one each: source lines are cached by the name of their file
            text += f"=== {name} ===\n{entry(name, printed(name, folder))}"
    SNAPSHOTS.parent.mkdir(exist_ok=True)
    SNAPSHOTS.write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
