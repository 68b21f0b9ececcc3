"""A derivative small enough to be checked by hand: Q = 3 a^3 - b^2, so dQ/da = 9 a^2 and dQ/db = -2 b.

Also: the gradient that comes from outside, why a graph can be walked only once, and what is left out of it.
"""

import numpy as np

import functrace as ft
import functrace.torch as torch


def Q(a, b):
    return 3 * a**3 - b**2


a, b = np.array([2.0, 3.0]), np.array([6.0, 4.0])
print("With functions:\n")
print(f"Q = {Q(a, b)}")

da, db = ft.grad(lambda a, b: Q(a, b).sum(), argnums=(0, 1))(a, b)
print(f"gradient of the sum: dQ/da = {da}, dQ/db = {db}")
assert np.array_equal(da, 9 * a**2) and np.array_equal(db, -2 * b)

q, pullback = ft.vjp(Q, a, b)  # Q is a vector: the sum is one way to weight its elements, and this is another
external = np.array([1.0, 10.0])
print(f"weighted by {external}: {pullback(external)[0]}, {pullback(external)[1]}")
print("The pullback keeps its tape, so it can be called as often as you like.")

second = ft.hessian(lambda a: Q(a, b).sum())(a)
print(f"second derivative, 18 a on the diagonal:\n{second}\n")
assert np.array_equal(second, np.diag(18 * a))


print("With tensors:\n")
A = torch.tensor([2.0, 3.0], requires_grad=True)
B = torch.tensor([6.0, 4.0], requires_grad=True)
T = Q(A, B)
T.backward(gradient=torch.tensor([1.0, 10.0]))
print(f"A.grad = {A.grad}, B.grad = {B.grad}")
assert np.array_equal(A.grad.numpy(), pullback(external)[0]) and np.array_equal(B.grad.numpy(), pullback(external)[1])
print(f"as by hand: {(9 * A**2 * torch.tensor([1.0, 10.0]) == A.grad).all().item()}")

try:
    T.sum().backward()
except RuntimeError as error:
    print(f"\nbackward() frees the graph as it goes, so a second one fails:\n{str(error).split('. ')[0]}.\n")

constant = torch.rand(2)
print(f"A sum of constants requires a gradient: {(constant + constant).requires_grad}")
print(f"A sum with a parameter in it: {(constant + A).requires_grad}")
print("Both ways agree.")
