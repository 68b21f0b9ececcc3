"""Jacobian products: what a derivative is when the output is not one number.

`f` maps a 3x4 array to another, so its Jacobian has 12 rows and 12 columns. Reverse mode multiplies it from the left by any `v`,
without ever building it: `v^T J`. Forward mode multiplies it from the right: `J u`.
"""

import numpy as np

import functrace as ft
import functrace.torch as torch

inp = np.eye(3, 4)
v = np.ones((3, 4))


def f(x):
    return (x + 1) ** 2


print("With functions: vjp gives the output, and the map from v to v^T J.\n")

out, pullback = ft.vjp(f, inp)
(product,) = pullback(v)
print(f"v^T J for v = ones:\n{product}")

J = ft.jacrev(f)(inp)
print(f"The whole Jacobian has shape {J.shape}; v^T J from it is the same: {np.array_equal(np.tensordot(v, J, 2), product)}")
assert np.array_equal(np.tensordot(v, J, 2), product)

_, ju = ft.jvp(f, (inp,), (v,))
print(f"J u by forward mode, J being diagonal here, too: {np.array_equal(ju, product)}")
assert np.array_equal(ju, product)

(row,) = pullback(np.eye(12)[5].reshape(3, 4))  # the pullback can be called again: this is row 5 of J
print(f"Row 5 of J, as v picks it out:\n{row}\n")
assert np.array_equal(row, J[1, 1])

rows = ft.vmap(lambda unit: pullback(unit)[0])(np.eye(12).reshape(12, 3, 4))  # and all rows, as one batch
assert np.array_equal(rows.reshape(J.shape), J)


print("With tensors: backward(v) adds v^T J to .grad.\n")

t = torch.eye(3, 4, requires_grad=True)
out = (t + 1).pow(2)
out.backward(torch.ones_like(out), retain_graph=True)
print(f"first call\n{t.grad}")
assert np.array_equal(t.grad.numpy(), product)
out.backward(torch.ones_like(out), retain_graph=True)
print(f"second call, accumulated\n{t.grad}")
assert np.array_equal(t.grad.numpy(), 2 * product)
t.grad.zero_()
out.t().backward(torch.ones(4, 3))  # the transpose of the output wants a v of its own shape
print(f"third call, after zeroing, through the transpose\n{t.grad}")
assert np.array_equal(t.grad.numpy(), product)
print("\nBoth ways agree.")
