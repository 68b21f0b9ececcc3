"""Bundle adjustment: cameras and points, found from where the points appear in the images, by sparse least squares.

Each residual depends on one camera (rotation, translation, focal length, two distortions: the model of Agarwal et al., "Bundle adjustment
in the large", 2010) and on one point, so of the Jacobian nearly all is zero. `sparse_jacobian` colours its columns: those that share no
row are found by one product, so twelve do for any number of cameras and points (Curtis, Powell and Reid, "On the estimation of sparse
Jacobian matrices", 1974). SciPy's `least_squares` takes the sparse matrix. The scene is made up, so the answer is known.
Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import least_squares
from scipy.sparse import csr_array
from tqdm import tqdm

import functrace as ft

CAMERAS, POINTS, NOISE = 12, 400, 0.5  # the noise in pixels


def rotate(r, x):
    """Rodrigues' formula: x turned about the vector r by its length, in radians."""
    angle = np.linalg.norm(r)
    axis = r / angle
    return np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1 - np.cos(angle)) * (axis @ x) * axis


def project(camera, point):
    """Where a camera (9,) sees a point (3,), in pixels."""
    rotation, translation, (focal, k1, k2) = camera[:3], camera[3:6], camera[6:]
    p = rotate(rotation, point) + translation
    p = -p[:2] / p[2]
    r2 = p @ p
    return focal * (1 + k1 * r2 + k2 * r2**2) * p


# The scene: points on a trefoil knot, cameras in a ring about it, each of which sees two thirds of them.
rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0, 2 * np.pi, POINTS))
knot = np.column_stack([np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), -np.sin(3 * t)]) / 3
points = knot + rng.normal(scale=0.04, size=knot.shape)
turns = np.linspace(0, 2 * np.pi, CAMERAS, endpoint=False)
cameras = np.zeros((CAMERAS, 9))
cameras[:, :3] = np.column_stack([np.full(CAMERAS, 0.4), turns - np.pi + 0.1, rng.normal(scale=0.1, size=CAMERAS)])
cameras[:, 3:] = [0.0, 0.0, -4.0, 800.0, -0.1, 0.02] + rng.normal(size=(CAMERAS, 6)) * [0.1, 0.1, 0.2, 10.0, 0.01, 0.0]
camera_of, point_of = np.nonzero(rng.random((CAMERAS, POINTS)) < 2 / 3)
M = len(camera_of)
project_all = ft.jit(ft.vmap(project))
seen = project_all(cameras[camera_of], points[point_of]) + rng.normal(scale=NOISE, size=(M, 2))


def split(x):
    return x[: 9 * CAMERAS].reshape(CAMERAS, 9), x[9 * CAMERAS :].reshape(POINTS, 3)


def residuals(x):
    """Pixels between where points should appear and where they did, (2 M,)."""
    cameras, points = split(x)
    return (project_all(cameras[camera_of], points[point_of]) - seen).ravel()


# The twelve unknowns of each observation, and so of its two residuals.
columns = np.hstack([9 * camera_of[:, None] + np.arange(9), 9 * CAMERAS + 3 * point_of[:, None] + np.arange(3)])
columns = np.repeat(columns, 2, axis=0)
pattern = csr_array((np.ones(24 * M), columns.ravel(), 12 * np.arange(2 * M + 1)), shape=(2 * M, 9 * CAMERAS + 3 * POINTS))
sparse_jacobian = ft.sparse_jacobian(residuals, pattern)  # without the pattern it would be found, in more time


def jacobian(x):
    bar.update()
    return sparse_jacobian(x)


def blocks(x):
    """The same elements, as (M, 2, 12), by hand: for each observation the Jacobians in its camera and in its point."""
    cameras, points = split(x)
    each = ft.vmap(ft.jacfwd(project, argnums=(0, 1)))(cameras[camera_of], points[point_of])
    return np.concatenate(each, axis=-1)


start_cameras = cameras + rng.normal(size=cameras.shape) * [0.02, 0.02, 0.02, 0.1, 0.1, 0.1, 30.0, 0.1, 0.02]
start = np.concatenate([start_cameras.ravel(), (points + rng.normal(scale=0.1, size=points.shape)).ravel()])
rms = lambda x: np.sqrt(np.mean(x**2))
print(f"{CAMERAS} cameras, {POINTS} points, {2 * M} residuals of {start.size} unknowns")
with tqdm(desc="adjusting", unit=" Jacobians") as bar:
    J = jacobian(start)
    apart = np.abs(J.data - blocks(start).ravel()).max()
    found = least_squares(residuals, start, jacobian, x_scale="jac", ftol=1e-8, xtol=1e-8, tr_solver="lsmr", tr_options={"maxiter": 300})
print(f"the Jacobian has {J.nnz} elements, {J.nnz / np.prod(J.shape):.2%}, up to {np.abs(J.data).max():.0f}; by hand, off by {apart:.0e}")
print(f"error in the pictures: {rms(residuals(start)):.2f} pixels at first, {rms(found.fun):.4f} after {found.njev} Jacobians")
free = 2 * M - start.size + 7  # where the whole scene is, how it is turned, and how large it is, no picture can tell
print(f"to be expected, from noise of {NOISE} pixels and what the unknowns take up: {NOISE * np.sqrt(free / (2 * M)):.4f}")
assert abs(rms(found.fun) / (NOISE * np.sqrt(free / (2 * M))) - 1) < 0.03


def aligned(x):
    """Points moved, turned and scaled to lie as near to the true ones as can be."""
    middle, true_middle = x.mean(axis=0), points.mean(axis=0)
    u, s, vh = np.linalg.svd((x - middle).T @ (points - true_middle))
    return (x - middle) @ (u @ vh) * s.sum() / np.sum((x - middle) ** 2) + true_middle


before, after = (aligned(split(x)[1]) for x in (start, found.x))
print(f"points in space, against the truth: off by {rms(before - points):.4f} at first, {rms(after - points):.5f} in the end")
print(f"focal lengths: off by {rms(split(start)[0][:, 6] - cameras[:, 6]):.1f} at first,", end=" ")
print(f"{rms(split(found.x)[0][:, 6] - cameras[:, 6]):.2f} in the end, in pixels")
assert rms(after - points) < 0.01

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.4), width_ratios=[0.9, 1, 1])
left.spy(J[:400], markersize=0.4, aspect="auto", color="C0")
left.set(xlabel="unknown: 9 for each camera, then 3 for each point", ylabel="residual", title="The Jacobian's first 400 rows")
left.tick_params(top=False, labeltop=False, bottom=True, labelbottom=True)
left.grid(False)
mine = camera_of == 0
for x, colour, label in ((start, "C1", "at first"), (found.x, "C0", "adjusted")):
    shown = seen[mine] + residuals(x).reshape(M, 2)[mine]
    middle.plot(*shown.T, ".", ms=4, color=colour, label=label)
middle.plot(*seen[mine].T, "o", ms=5, mfc="none", mec="0.3", mew=0.6, label="seen")
middle.set(xlabel="pixels", ylabel="pixels", title="What the first camera sees", aspect="equal")
middle.legend(markerscale=1.5)
right.hist(np.abs(before - points).max(axis=1), np.geomspace(1e-4, 1, 40), color="C1", label="at first")
right.hist(np.abs(after - points).max(axis=1), np.geomspace(1e-4, 1, 40), color="C0", label="adjusted")
right.set(xscale="log", xlabel="error of a point's place", ylabel="points", title=f"{POINTS} points in space")
right.legend()
save(figure, "bundle_adjustment")
