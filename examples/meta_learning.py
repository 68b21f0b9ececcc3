"""Learning to learn: a starting point from which one step of gradient descent, on ten points, finds a sine wave.

Each task is a sine of some amplitude and phase. What is trained is where training starts, and how large a step each array takes, so that
the loss on new points, *after* the step, is small: MAML (Finn, Abbeel and Levine, "Model-agnostic meta-learning for fast adaptation of
deep networks", 2017, section 5.1) with learned rates (Li, Zhou, Chen and Li, "Meta-SGD", 2017). That loss has a gradient in it, so its own
gradient is of second order: `grad` through `grad`, `vmap` over the tasks, and `jit` around it all. Needs the extra: pip install
'functrace[examples]'.
"""

import numpy as np
from _picture import BLUE, GREEN, GREY, RED, save
from matplotlib.figure import Figure
from tqdm import tqdm

import functrace as ft
from functrace import random

STEPS, TASKS, SHOTS = 800, 25, 10


def predict(layers, x):
    """A perceptron with two hidden layers, from numbers to numbers."""
    *hidden, last = layers
    h = np.reshape(x, (-1, 1))
    for layer in hidden:
        h = np.tanh(h @ layer["w"] + layer["b"])
    return (h @ last["w"] + last["b"])[:, 0]


def loss(layers, x, y):
    return np.mean((predict(layers, x) - y) ** 2)


def adapt(p, task):
    """One step of gradient descent on the first points of a task."""
    grads = ft.grad(loss)(p["start"], task["x"], task["y"])
    return ft.tree.map(lambda x, rate, g: x - rate * g, p["start"], p["rates"], grads)


def adapted(p, task):
    """The loss on the other points of the task, after that step."""
    return loss(adapt(p, task), task["x_new"], task["y_new"])


def unadapted(p, task):
    """The loss without it. To train this is to learn all tasks at once."""
    return loss(p["start"], task["x_new"], task["y_new"])


def over(objective):
    """The mean over many tasks."""
    return lambda p, tasks: np.mean(ft.vmap(objective, in_axes=(None, 0))(p, tasks))


def make_tasks(key, count):
    for_height, for_phase, *for_x = random.split(key, 4)
    height = random.uniform(for_height, (count, 1), minval=0.1, maxval=5.0)
    phase = random.uniform(for_phase, (count, 1), maxval=np.pi)
    x, x_new = (random.uniform(k, (count, SHOTS), minval=-5.0, maxval=5.0) for k in for_x)
    return {"x": x, "y": height * np.sin(x - phase), "x_new": x_new, "y_new": height * np.sin(x_new - phase)}


def train(objective, name):
    sizes = [(1, 40), (40, 40), (40, 1)]
    keys = random.split(random.key(1), 3)
    start = [{"w": random.normal(k, size) / np.sqrt(size[0]), "b": np.zeros(size[1])} for k, size in zip(keys, sizes)]
    p = {"start": start, "rates": ft.tree.map(lambda _: 0.02, start)}
    optimizer = ft.optim.adam(ft.optim.cosine_decay(0.01, STEPS))
    state = optimizer.init(p)

    @ft.jit
    def step(p, state, key):
        value, grads = ft.value_and_grad(over(objective))(p, make_tasks(key, TASKS))
        updates, state = optimizer.update(grads, state, p)
        return ft.optim.apply_updates(p, updates), state, value

    history = []
    for key in tqdm(random.split(random.key(2), STEPS), desc=name, unit=" steps"):
        p, state, value = step(p, state, key)
        history.append(value)
    return p, history


meta, history = train(adapted, "to adapt")
joint, _ = train(unadapted, "all tasks at once")

# the other network may take a step, too, with the rate that suits it best
tasks = make_tasks(random.key(3), 2000)
trials = [{**joint, "rates": ft.tree.map(lambda _: rate, joint["rates"])} for rate in (0.001, 0.003, 0.01, 0.02, 0.05, 0.1)]
joint = min(trials, key=lambda p: over(adapted)(p, tasks))
mean_sine = -2 / np.pi * 2.55 * np.cos(tasks["x_new"])  # of all heights and phases, by hand
least = np.mean((tasks["y_new"] - mean_sine) ** 2)
print(f"2000 new sines, mean square {np.mean(tasks['y_new'] ** 2):.2f}; about their mean, the least for one curve: {least:.2f}")
for name, p in {"trained on all tasks at once": joint, "trained to adapt": meta}.items():
    print(f"{name}: loss before the step {over(unadapted)(p, tasks):.2f}, after it {over(adapted)(p, tasks):.2f}")
assert over(unadapted)(joint, tasks) < 1.02 * least and over(adapted)(meta, tasks) < 0.2 * over(adapted)(joint, tasks)

figure = Figure(figsize=(11, 4.2))
*panels, curve = figure.subplots(1, 3, width_ratios=[1, 1, 0.8])
x = np.linspace(-5, 5, 200)
for ax, (height, phase), key in zip(panels, [(4.0, 0.5), (2.5, 2.5)], random.split(random.key(4))):
    shots = random.uniform(key, (SHOTS,), minval=-5.0, maxval=5.0)
    task = {"x": shots, "y": height * np.sin(shots - phase)}
    ax.plot(x, height * np.sin(x - phase), color=GREY, lw=4, alpha=0.35, label="the sine")
    ax.plot(x, predict(adapt(joint, task), x), color=GREEN, lw=1.2, label="all tasks at once, one step")
    ax.plot(x, predict(meta["start"], x), "--", color=BLUE, lw=1.2, label="to adapt, before the step")
    ax.plot(x, predict(adapt(meta, task), x), color=BLUE, label="to adapt, after one step")
    ax.plot(shots, task["y"], "o", color=RED, ms=5, label="the ten points")
    ax.set(ylim=(-6, 9.5), xlabel="x")
panels[0].set(title="A sine from ten points and one step")
panels[0].legend(loc="upper left", fontsize=9)
curve.plot(np.convolve(history, np.ones(50) / 50, "valid"), color=BLUE)
curve.set(title="Loss after the step", xlabel="steps of meta-learning", yscale="log")
save(figure, "meta_learning")
