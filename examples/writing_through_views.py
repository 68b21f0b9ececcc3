"""In-place assignment through a chain of views, and its derivative.

`out[0][0] = ...` takes a view of the first row of `out`, then of its first element, and writes there. The old value of that
element is gone, and with it its part in the derivative: what counts is what was written.
"""

import numpy as np

import functrace as ft
import functrace.torch as torch


def f(x):
    out = (x + 2) ** 2
    out[0][0] = 5 * x[0][0] ** 2 + x[1][1] ** 3  # replaces (x[0][0] + 2) ** 2
    return out


x = np.diag([1.0, 2.0, 3.0])
print("With functions:\n")
value, pullback = ft.vjp(f, x)
print(f"x =\n{x}\nf(x) =\n{value}")
(g,) = pullback(x)
print(f"v^T J for v = x =\n{g}\n")

# Element (0, 0) of the output depends on x[0, 0] and on x[1, 1]; all others only on their own place.
want = x * 2 * (x + 2)
want[0, 0] = x[0, 0] * 10 * x[0, 0]
want[1, 1] += x[0, 0] * 3 * x[1, 1] ** 2
assert np.array_equal(g, want)
print("By hand the same. The array that was passed in is as it was:", np.array_equal(x, np.diag([1.0, 2.0, 3.0])))

J = ft.jacobian(f)(x)
print("The row of the Jacobian for the element written to:\n" + str(J[0, 0]) + "\n")

print("With tensors:\n")
t = torch.tensor(x, requires_grad=True)
out = f(t)  # the very same function
print(f"before backward: {t.grad}")
out.backward(t)
print(f"after:\n{t.grad}")
assert np.array_equal(t.grad.numpy(), g)

view = out.detach()[1]
view[2] = 100.0
print(f"\nA write through a view reaches the array that it is a view of: {out[1][2].item():.0f}")
print("Both ways agree.")
