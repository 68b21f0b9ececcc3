"""Value and gradient of the log-likelihood of a Gaussian mixture with full precision factors and a prior (as in ADBench).

Parameters: log-weights (K), means (K, d), logarithms of the factors' diagonals (K, d), the factors below it (K, d (d - 1) / 2).
People write the distance |Q_k (x_i - m_k)|^2 in several ways; each is a workload of its own, the same in every library:
`einsum`, `batched` (one matmul per component, stacked), `product` (one matmul for all) and `loop` (a Python loop).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, FASTEST, HAND, JIT, OURS, Target, Workload, jax, namespace
from benchmarks.numpy_style import logsumexp_of


def problem(n: int, d: int, k: int) -> Any:
    rng = np.random.default_rng(0)
    params = (rng.normal(size=k), rng.normal(size=(k, d)), 0.1 * rng.normal(size=(k, d)), 0.1 * rng.normal(size=(k, d * (d - 1) // 2)))
    # Where the elements of a factor are found in a row of [diagonal, below the diagonal, 0].
    index = np.full((d, d), d + d * (d - 1) // 2)
    index[np.diag_indices(d)] = np.arange(d)
    index[np.tril_indices(d, -1)] = d + np.arange(d * (d - 1) // 2)
    return namespace(x=rng.normal(size=(n, d)), params=params, index=index, n=n, d=d, k=k, tril=np.tril_indices(d, -1))


# The ways of writing the squared distances (n, K), for a library with NumPy's API.


def einsum(np: Any, x: Any, means: Any, q: Any) -> Any:
    y = np.einsum("kij,nkj->nki", q, x[:, None, :] - means)
    return np.sum(y * y, axis=2)


def batched(np: Any, x: Any, means: Any, q: Any) -> Any:
    y = np.matmul(x - means[:, None, :], np.swapaxes(q, 1, 2))
    return np.sum(y**2, axis=2).T


def product(np: Any, x: Any, means: Any, q: Any) -> Any:
    k, d = means.shape
    y = x @ np.reshape(q, (k * d, d)).T - np.reshape(np.matmul(q, means[:, :, None]), (k * d,))
    return np.sum(np.reshape(y**2, (-1, k, d)), axis=2)


def loop(np: Any, x: Any, means: Any, q: Any) -> Any:
    rows = []
    for k in range(len(means)):
        y = (x - means[k]) @ q[k].T
        rows.append(np.sum(y**2, axis=1))
    return np.stack(rows, axis=1)


def likelihood(np: Any, logsumexp: Any, distances: Any, p: Any, weights: Any, means: Any, diagonal: Any, below: Any) -> Any:
    row = np.concatenate([np.exp(diagonal), below, np.zeros((p.k, 1))], axis=1)
    q = row[:, p.index]
    terms = weights + np.sum(diagonal, axis=1) - 0.5 * distances(np, p.x, means, q)
    prior = 0.5 * (np.sum(np.exp(2 * diagonal)) + np.sum(below**2))
    return np.sum(logsumexp(terms, axis=1)) - p.n * logsumexp(weights, axis=0) - prior


def by_hand(p: Any) -> Any:
    """The `product` form."""

    def run() -> Any:
        weights, means, diagonal, below = p.params
        k, d, n, x = p.k, p.d, p.n, p.x
        q = np.zeros((k, d, d))
        lower, i = p.tril, np.arange(d)
        e = np.exp(diagonal)
        q[:, i, i] = e
        q[:, lower[0], lower[1]] = below
        y = x @ q.reshape(k * d, d).T - np.matmul(q, means[:, :, None]).reshape(k * d)
        terms = weights + diagonal.sum(1) - 0.5 * np.sum((y * y).reshape(n, k, d), axis=2)
        top = terms.max(axis=1, keepdims=True)
        r = np.exp(terms - top)
        s = r.sum(axis=1, keepdims=True)
        w = np.exp(weights - weights.max())
        prior = 0.5 * (np.sum(e * e) + np.sum(below**2))
        value = np.sum(np.log(s) + top) - n * (np.log(w.sum()) + weights.max()) - prior
        r /= s
        gy = (y.reshape(n, k, d) * -r[:, :, None]).reshape(n, k * d)
        gqm = -gy.sum(axis=0).reshape(k, d)
        gq = (gy.T @ x).reshape(k, d, d) + gqm[:, :, None] * means[:, None, :]
        gmeans = np.matmul(np.swapaxes(q, 1, 2), gqm[:, :, None])[:, :, 0]
        gterms = r.sum(axis=0)
        return value, (
            gterms - n * w / w.sum(),
            gmeans,
            gq[:, i, i] * e + gterms[:, None] - e * e,
            gq[:, lower[0], lower[1]] - below,
        )

    return run


def _pytorch(distances: Any) -> Any:
    def build(p: Any) -> Any:
        import torch

        params = [torch.tensor(a, requires_grad=True) for a in p.params]
        x = torch.tensor(p.x)
        i, j = torch.tril_indices(p.d, p.d, -1)

        def run() -> Any:
            weights, means, diagonal, below = params
            q = torch.diag_embed(torch.exp(diagonal))
            q[:, i, j] = below
            terms = weights + diagonal.sum(1) - 0.5 * distances(torch, x, means, q)
            prior = 0.5 * (torch.exp(2 * diagonal).sum() + (below**2).sum())
            value = torch.logsumexp(terms, 1).sum() - p.n * torch.logsumexp(weights, 0) - prior
            return value, torch.autograd.grad(value, params)

        return run

    return build


def _torch_product(torch: Any, x: Any, means: Any, q: Any) -> Any:
    k, d = means.shape
    y = x @ q.reshape(k * d, d).T - torch.matmul(q, means[:, :, None]).reshape(k * d)
    return (y**2).reshape(-1, k, d).sum(2)


def _torch_loop(torch: Any, x: Any, means: Any, q: Any) -> Any:
    return torch.stack([(((x - means[k]) @ q[k].T) ** 2).sum(1) for k in range(len(means))], 1)


def _torch_batched(torch: Any, x: Any, means: Any, q: Any) -> Any:
    return (torch.matmul(x - means[:, None, :], q.transpose(1, 2)) ** 2).sum(2).T


def _torch_einsum(torch: Any, x: Any, means: Any, q: Any) -> Any:
    y = torch.einsum("kij,nkj->nki", q, x[:, None, :] - means)
    return (y * y).sum(2)


def _functrace(distances: Any) -> Any:
    def build(p: Any) -> Any:
        import functrace as ft
        import functrace.numpy as fnp

        def f(params: Any) -> Any:
            return likelihood(fnp, logsumexp_of(fnp), distances, p, *params)

        g = ft.value_and_grad(f)
        return lambda: g(p.params)

    return build


def _autograd(distances: Any) -> Any:
    def build(p: Any) -> Any:
        import autograd.numpy as anp
        from autograd import value_and_grad
        from autograd.scipy.special import logsumexp

        g = value_and_grad(lambda params: likelihood(anp, logsumexp, distances, p, *params))
        return lambda: g(p.params)

    return build


def _mygrad(distances: Any) -> Any:
    def build(p: Any) -> Any:
        import mygrad as mg

        def logsumexp(x: Any, axis: int) -> Any:
            top = x.data.max(axis=axis, keepdims=True)
            return mg.log(mg.sum(mg.exp(x - top), axis=axis)) + np.squeeze(top, axis)

        def run() -> Any:
            params = [mg.tensor(a) for a in p.params]
            value = likelihood(mg, logsumexp, distances, p, *params)
            value.backward()
            return value.data, [a.grad for a in params]

        return run

    return build


def _jax(distances: Any) -> Any:
    def build(p: Any) -> Any:
        j = jax()
        data = namespace(**{**vars(p), "x": j.numpy.asarray(p.x)})
        g = j.jit(j.value_and_grad(lambda params: likelihood(j.numpy, j.scipy.special.logsumexp, distances, data, *params)))
        params = tuple(j.numpy.asarray(a) for a in p.params)
        return lambda: j.block_until_ready(g(params))

    return build


WORKLOADS = []
for ours, theirs in ((einsum, _torch_einsum), (batched, _torch_batched), (product, _torch_product), (loop, _torch_loop)):
    workload = Workload(
        f"gmm, {ours.__name__}",
        "value_and_grad of a Gaussian mixture, 1000 points, 25 components",
        problem,
        {"d 10": {"n": 1000, "d": 10, "k": 25}, "d 64": {"n": 1000, "d": 64, "k": 25}},
        [Target(FASTEST, 1.0)],
        quick=("d 10",),
    )
    workload.contestant(HAND, "NumPy by hand (product)")(by_hand)
    workload.contestant(OURS, "functrace")(_functrace(ours))
    workload.contestant(EAGER, "PyTorch")(_pytorch(theirs))
    workload.contestant(EAGER, "autograd")(_autograd(ours))
    workload.contestant(EAGER, "MyGrad")(_mygrad(ours))
    workload.contestant(JIT, "JAX jit")(_jax(ours))
    WORKLOADS.append(workload)
