"""Balancing a pole on a cart by policy gradient: the simulator is a black box, only the policy is differentiated.

The task is of Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems", 1983, with
the constants and the 500 steps of today's benchmark; the method is REINFORCE (Williams, "Simple statistical gradient-following algorithms
for connectionist reinforcement learning", 1992). The gradient of the expected return is the expectation of the return times the gradient
of the log probability of what was done, so the loss below is differentiated, and never the physics; what a step may expect anyway is
subtracted. Random numbers come from keys, so a run can be repeated. Needs the extra: pip install 'functrace[examples]'.
"""

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from tqdm import trange

import functrace as ft

EPISODES, STEPS, HIDDEN, ROUNDS = 32, 500, 16, 50


def simulate(state, push):
    """The next states of carts, (episodes, 4): place, speed, angle of the pole, its speed; a push is 0 (left) or 1 (right)."""
    x, v, a, w = state.T
    force = np.where(push, 10.0, -10.0)
    sin, cos = np.sin(a), np.cos(a)
    pull = (force + 0.05 * w**2 * sin) / 1.1
    turn = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    return state + 0.02 * np.stack([v, pull - 0.05 * turn * cos / 1.1, w, turn], axis=1)


def logit(params, state):
    """The logarithm of the odds for a push to the right."""
    return (np.tanh(state @ params["w1"] + params["b1"]) @ params["w2"])[..., 0]


def play(params, key, episodes=EPISODES):
    """States (steps, episodes, 4), pushes and whether the episode still ran (steps, episodes), until all have fallen or time is up."""
    first, chances = ft.random.split(key)
    state = ft.random.uniform(first, (episodes, 4), minval=-0.05, maxval=0.05)
    chances = ft.random.uniform(chances, (STEPS, episodes))
    alive = np.ones(episodes, bool)
    seen = []
    for chance in chances:
        push = chance < 1 / (1 + np.exp(-logit(params, state)))
        seen.append((state, push, alive))
        state = simulate(state, push)
        alive = alive & (np.abs(state[:, 0]) < 2.4) & (np.abs(state[:, 2]) < np.radians(12))
        if not alive.any():
            break
    return [np.stack(part) for part in zip(*seen)]


def loss(params, states, pushes, advantage):
    """Its gradient is an estimate of that of minus the expected return."""
    z = logit(params, states)
    log_probability = -np.logaddexp(0.0, np.where(pushes, -z, z))
    return -np.sum(advantage * log_probability) / EPISODES


def advantages(alive):
    """How many steps followed each, against the mean of those still running; in units of their spread."""
    to_go = np.cumsum(alive[::-1], axis=0)[::-1] * alive
    mean = to_go.sum(axis=1, keepdims=True) / np.maximum(alive.sum(axis=1, keepdims=True), 1)
    centred = (to_go - mean) * alive
    return centred / (np.sqrt(np.sum(centred**2) / alive.sum()) + 1e-8)


key, *keys = ft.random.split(ft.random.key(0), 3)
params = {
    "w1": 0.5 * ft.random.normal(keys[0], (4, HIDDEN)),
    "b1": np.zeros(HIDDEN),
    "w2": 0.1 * ft.random.normal(keys[1], (HIDDEN, 1)),
}
optimizer = ft.optim.adam(0.03)
state = optimizer.init(params)
gradient = ft.grad(loss)
history, first_play = [], play(params, ft.random.key(1), 8)
bar = trange(ROUNDS, desc="learning", unit=" rounds")
for step in bar:
    states, pushes, alive = play(params, ft.random.fold_in(key, step))
    updates, state = optimizer.update(gradient(params, states, pushes, advantages(alive)), state, params)
    params = ft.optim.apply_updates(params, updates)
    history.append(alive.sum(axis=0))
    bar.set_postfix(steps=f"{history[-1].mean():.0f}")
history = np.array(history)
for k in (0, 10, 20, 30, ROUNDS - 1):
    print(f"round {k + 1:2d}: the pole stays up for {history[k].mean():5.1f} steps, from {history[k].min()} to {history[k].max()}")

last = play(params, ft.random.key(2), 100)
lengths = last[2].sum(axis=0)
print(f"100 new episodes: {lengths.mean():.1f} steps on average, {np.sum(lengths == STEPS)} of them to the end; 475 counts as solved")
assert lengths.mean() >= 475

# The expectation of the gradient of a log probability is 0: the reason why a baseline may be subtracted. Here the mean of many.
score = ft.vmap(lambda x, push: ft.grad(loss)(params, x, push, 1.0))
states, pushes, alive = (part.reshape(-1, *part.shape[2:]) for part in last)
scores = EPISODES * score(states[alive], pushes[alive])["w2"][:, :, 0]
deviations = np.abs(scores.mean(axis=0)) / (scores.std(axis=0) / np.sqrt(len(scores)))
print(f"mean score of {len(scores)} pushes: within {deviations.max():.1f} standard errors of zero, for all {HIDDEN} weights")

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4))
rounds = np.arange(1, ROUNDS + 1)
left.fill_between(rounds, history.min(axis=1), history.max(axis=1), alpha=0.25, lw=0, label="shortest to longest")
left.plot(rounds, history.mean(axis=1), label=f"mean of {EPISODES}")
left.set(xlabel="round", ylabel="steps before it falls", title="Learning")
left.legend(loc="lower right")
for (states, _, alive), colour, label in ((first_play, "C1", "before"), (last, "C0", "after")):
    for k in range(8):
        up = alive[:, k]
        middle.plot(0.02 * np.arange(up.sum()), np.degrees(states[up, k, 2]), color=colour, lw=1, label=None if k else label)
middle.axhspan(12, 14, color="0.85")
middle.axhspan(-14, -12, color="0.85")
middle.set(xlabel="time, s", ylabel="angle of the pole, degrees", ylim=(-14, 14), title="Eight episodes")
middle.legend(loc="lower right", bbox_to_anchor=(1.0, 0.08))
angle, speed = np.meshgrid(np.linspace(-0.2, 0.2, 101), np.linspace(-2, 2, 101))
zero = np.zeros_like(angle)
chance = 1 / (1 + np.exp(-logit(params, np.stack([zero, zero, angle, speed], axis=-1))))
drawn = right.pcolormesh(np.degrees(angle), speed, chance, cmap="RdBu", vmin=0, vmax=1, rasterized=True)
figure.colorbar(drawn, label="probability of a push to the right")
right.set(xlabel="angle, degrees", ylabel="angular speed, 1/s", title="The policy, cart at rest")
right.grid(False)
save(figure, "cart_pole")
