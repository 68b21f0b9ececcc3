"""Bundle adjustment: the Jacobian of every observation's residual with respect to its camera, its point and its weight.

A camera is rotation (3, Rodrigues), centre (3), focal length, principal point (2), radial distortion (2), as in ADBench. The
natural program is `vmap(jacrev(residual))`; who has no vmap writes the residual for the whole batch and pulls back each of
its two components once, since observations do not mix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import EAGER, JIT, OURS, Target, Workload, jax, namespace


def problem(n: int, cameras: int, points: int) -> Any:
    rng = np.random.default_rng(0)
    cams = rng.normal(size=(cameras, 11)) * 0.1
    cams[:, 6] += 1.0
    pts = rng.normal(size=(points, 3)) + [0.0, 0.0, 5.0]
    cam, pt = rng.integers(0, cameras, n), rng.integers(0, points, n)
    return namespace(cams=cams[cam], points=pts[pt], weights=rng.uniform(0.5, 1.5, n), features=rng.normal(size=(n, 2)), n=n)


bundle = Workload(
    "bundle",
    "Jacobian of bundle-adjustment residuals, 2 x 15 for each observation",
    problem,
    {"1000 observations": {"n": 1000, "cameras": 20, "points": 300}, "20000 observations": {"n": 20000, "cameras": 50, "points": 5000}},
    [Target("PyTorch, vmap(jacrev)", 1.0), Target("PyTorch, two pullbacks", 1.0, ours="functrace, two pullbacks")],
    quick=("1000 observations",),
)
WORKLOADS = [bundle]


def residual(np: Any, camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    """One observation."""
    rotation, centre, focal, principal, radial = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:11]
    x = point - centre
    angle = np.sqrt(np.sum(rotation * rotation))
    axis = rotation / angle
    x = x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * np.sum(axis * x) * (1 - np.cos(angle))
    flat = x[:2] / x[2]
    r2 = np.sum(flat * flat)
    image = flat * (1 + radial[0] * r2 + radial[1] * r2 * r2) * focal + principal
    return weight * (image - feature)


def residuals(np: Any, camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    """All observations at once: the same with the batch in front."""
    rotation, centre, focal, principal, radial = camera[:, :3], camera[:, 3:6], camera[:, 6:7], camera[:, 7:9], camera[:, 9:11]
    x = point - centre
    angle = np.sqrt(np.sum(rotation * rotation, 1))[:, None]
    axis = rotation / angle
    x = x * np.cos(angle) + cross(np, axis, x) * np.sin(angle) + axis * np.sum(axis * x, 1)[:, None] * (1 - np.cos(angle))
    flat = x[:, :2] / x[:, 2:]
    r2 = np.sum(flat * flat, 1)[:, None]
    image = flat * (1 + radial[:, :1] * r2 + radial[:, 1:] * r2 * r2) * focal + principal
    return weight[:, None] * (image - feature)


def cross(np: Any, a: Any, b: Any) -> Any:
    ax, ay, az, bx, by, bz = a[:, 0], a[:, 1], a[:, 2], b[:, 0], b[:, 1], b[:, 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], 1)


def join(rows: Any) -> Any:
    """Gradients of the two components, each (camera, point, weight), as three Jacobians (n, 2, ...)."""
    return [np.stack([np.asarray(a) for a in pair], axis=1) for pair in zip(*rows)]


@bundle.contestant(EAGER, "PyTorch, vmap(jacrev)")
def pytorch(p: Any) -> Any:
    import torch

    def f(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        rotation, centre, focal, principal, radial = camera[:3], camera[3:6], camera[6], camera[7:9], camera[9:11]
        x = point - centre
        angle = torch.sqrt((rotation * rotation).sum())
        axis = rotation / angle
        x = x * torch.cos(angle) + torch.linalg.cross(axis, x) * torch.sin(angle) + axis * (axis * x).sum() * (1 - torch.cos(angle))
        flat = x[:2] / x[2]
        r2 = (flat * flat).sum()
        image = flat * (1 + radial[0] * r2 + radial[1] * r2 * r2) * focal + principal
        return weight * (image - feature)

    jacobian = torch.func.vmap(torch.func.jacrev(f, argnums=(0, 1, 2)))
    arguments = [torch.tensor(a) for a in (p.cams, p.points, p.weights, p.features)]
    return lambda: jacobian(*arguments)


@bundle.contestant(EAGER, "PyTorch, two pullbacks")
def pytorch_pullbacks(p: Any) -> Any:
    import torch

    def run() -> Any:
        inputs = [torch.tensor(a, requires_grad=True) for a in (p.cams, p.points, p.weights)]
        out = residuals(torch, *inputs, torch.tensor(p.features))
        return join([torch.autograd.grad(out[:, k].sum(), inputs, retain_graph=k == 0) for k in range(2)])

    return run


@bundle.contestant(OURS, "functrace")
def functrace(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    def f(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
        return residual(fnp, camera, point, weight, feature)

    jacobian = ft.vmap(ft.jacrev(f, argnums=(0, 1, 2)))
    return lambda: jacobian(p.cams, p.points, p.weights, p.features)


@bundle.contestant(OURS, "functrace, two pullbacks")
def functrace_pullbacks(p: Any) -> Any:
    import functrace as ft
    import functrace.numpy as fnp

    seeds = [np.zeros((p.n, 2)) + [1.0, 0.0], np.zeros((p.n, 2)) + [0.0, 1.0]]

    def run() -> Any:
        _, pullback = ft.vjp(lambda *inputs: residuals(fnp, *inputs, p.features), p.cams, p.points, p.weights)
        return join([pullback(seed) for seed in seeds])

    return run


@bundle.contestant(EAGER, "autograd, two pullbacks")
def hips(p: Any) -> Any:
    import autograd.numpy as anp
    from autograd import make_vjp

    seeds = [np.zeros((p.n, 2)) + [1.0, 0.0], np.zeros((p.n, 2)) + [0.0, 1.0]]
    f = make_vjp(lambda inputs: residuals(anp, *inputs, p.features))

    def run() -> Any:
        pullback, _ = f((p.cams, p.points, p.weights))
        return join([pullback(seed) for seed in seeds])

    return run


def _jax(p: Any, wrap: Any) -> Any:
    j = jax()
    jacobian = wrap(j.vmap(j.jacrev(lambda *a: residual(j.numpy, *a), argnums=(0, 1, 2))))
    arguments = [j.numpy.asarray(a) for a in (p.cams, p.points, p.weights, p.features)]
    return lambda: j.block_until_ready(jacobian(*arguments))


@bundle.contestant(EAGER, "JAX, vmap(jacrev)")
def jax_eager(p: Any) -> Any:
    return _jax(p, lambda f: f)


@bundle.contestant(JIT, "JAX jit, vmap(jacrev)")
def jax_jit(p: Any) -> Any:
    return _jax(p, jax().jit)
