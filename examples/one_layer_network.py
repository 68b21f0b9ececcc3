"""One layer of a neural network and the derivatives of its loss, told twice: with functions, and with tensors.

Four examples with five features each are scored for three labels: `z = x @ w + b`. The loss is the binary cross entropy of the
scores, and what we want is how it changes with the parameters `w` and `b`.
"""

import numpy as np

import functrace as ft
import functrace.torch as torch

rng = np.random.default_rng(0)
x = rng.normal(size=(4, 5)).astype(np.float32)  # inputs
y = (rng.random((4, 3)) > 0.5).astype(np.float32)  # the labels to be predicted
w = rng.normal(size=(5, 3)).astype(np.float32)
b = np.zeros(3, np.float32)
np.set_printoptions(precision=4, suppress=True)


print("With functions: the loss is a function of the parameters, its gradient is another function.\n")


def cross_entropy(w, b):
    z = x @ w + b
    return np.mean(np.logaddexp(0, z) - y * z)  # -log of the probability given to the right label


loss, (dw, db) = ft.value_and_grad(cross_entropy, argnums=(0, 1))(w, b)
print(f"loss = {loss:.4f}\nd loss / d w =\n{dw}\nd loss / d b = {db}")

by_hand = (1 / (1 + np.exp(-(x @ w + b))) - y) / y.size  # d loss / d z, from a book
assert np.allclose(dw, x.T @ by_hand, atol=1e-6) and np.allclose(db, by_hand.sum(0), atol=1e-6)
print("The formula from the book gives the same.\n")

frozen = ft.grad(lambda w: cross_entropy(ft.stop_gradient(w), b))(w)
print(f"Through stop_gradient nothing flows: {np.abs(frozen).sum():.0f}\n")


print("With tensors: parameters ask for a gradient, and backward() fills it in.\n")

X, Y = torch.tensor(x), torch.tensor(y)
W = torch.tensor(w, requires_grad=True)
B = torch.zeros(3)
B.requires_grad_(True)  # may be asked for later, too
Z = torch.matmul(X, W) + B
L = torch.nn.functional.binary_cross_entropy_with_logits(Z, Y)
print(f"Z was made by {type(Z.grad_fn).__name__}, the loss by {type(L.grad_fn).__name__}.")

L.backward(retain_graph=True)
print(f"W.grad =\n{W.grad}\nB.grad = {B.grad}")
assert np.allclose(W.grad.numpy(), dw, atol=1e-6) and np.allclose(B.grad.numpy(), db, atol=1e-6)
print("Both ways agree.\n")

L.backward()  # the graph was retained, so it can be walked again
print(f"A second backward() adds to what is there: B.grad = {B.grad}")
B.grad.zero_()
print(f"After B.grad.zero_(): {B.grad}\n")

with torch.no_grad():
    untracked = torch.matmul(X, W) + B
print("Does the result require a gradient?")
print(f"as usual: {Z.requires_grad}, under no_grad(): {untracked.requires_grad}, after detach(): {Z.detach().requires_grad}")
