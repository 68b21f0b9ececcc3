"""The gradient of each example's loss, and what it is good for: private training, wrong labels, and what one example changes.

`vmap(grad(loss))` gives one gradient for each example in one run of array operations. Three uses, on scikit-learn's breast-cancer data:
clipped one by one and blurred, they hide who took part (Abadi et al., "Deep learning with differential privacy", 2016); an example that
pulls hard against the others may be labelled wrongly; and, through the inverse Hessian, they tell how the model would change had an
example not been there, without training again (Koh and Liang, "Understanding black-box predictions via influence functions", 2017),
which is checked here by training again. Needs the extra: pip install 'functrace[examples]'.
"""

from time import perf_counter

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import functrace as ft

rng = np.random.default_rng(0)
x, y = load_breast_cancer(return_X_y=True)
x = StandardScaler().fit_transform(x)
x = np.column_stack([x, np.ones(len(x))])  # the last weight is the intercept
x_train, x_test, y_train, y_test = train_test_split(x, 2.0 * y - 1, test_size=0.3, random_state=0)
wrong = rng.choice(len(x_train), 20, replace=False)
y_train[wrong] *= -1  # twenty labels are turned round
PENALTY = 0.03


def loss(w, x, y):
    """The loss of one example, x (features,) and y of -1 or 1; its share of the penalty makes the problem strictly convex."""
    return np.logaddexp(0.0, -y * (x @ w)) + PENALTY / 2 * (w @ w)


def mean_loss(w, x, y, weights):
    return np.sum(weights * ft.vmap(loss, in_axes=(None, 0, 0))(w, x, y)) / np.sum(weights)


gradient, hessian = ft.jit(ft.grad(mean_loss)), ft.jit(ft.hessian(mean_loss))


def train(weights, w):
    """Newton's method to the end; an example of weight 0 is left out."""
    while True:
        step = np.linalg.solve(hessian(w, x_train, y_train, weights), gradient(w, x_train, y_train, weights))
        w = w - step
        if np.abs(step).max() < 1e-10:
            return w


each = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))
everyone = np.ones(len(x_train))
w = train(everyone, np.zeros(x.shape[1]))
start = perf_counter()
gradients = each(w, x_train, y_train)
middle = perf_counter()
loop = np.stack([ft.grad(loss)(w, a, b) for a, b in zip(x_train, y_train)])
end = perf_counter()
print(f"{gradients.shape[0]} gradients of {gradients.shape[1]} weights: the loop agrees to {np.abs(loop - gradients).max():.0e}")
print(f"their mean is the gradient of the mean loss, here at its minimum: {np.abs(gradients.mean(axis=0)).max():.0e}")
print(f"by vmap they take {1e3 * (middle - start):.1f} ms, one after the other {1e3 * (end - middle):.0f} ms")

# 1. Private: nobody's gradient is longer than 1, and noise of that size is added to their sum.
private = np.zeros_like(w)
for _ in range(200):
    g = each(private, x_train, y_train)
    g = g * np.minimum(1.0, 1.0 / np.linalg.norm(g, axis=1))[:, None]
    private = private - 0.5 * (g.sum(axis=0) + rng.normal(size=w.size)) / len(g)
accuracy = lambda w: np.mean(np.sign(x_test @ w) == y_test)
print(f"accuracy on the test data: {accuracy(w):.1%}, trained with clipped gradients and noise: {accuracy(private):.1%}")

# 2. Wrong labels: who pulls hardest at the minimum?
norms = np.linalg.norm(gradients, axis=1)
hardest = np.argsort(-norms)[:40]
print(f"of the 40 largest of {len(norms)} gradients, {np.isin(hardest, wrong).sum()} belong to the 20 wrong labels")

# 3. Influence: leaving example i out moves the minimum by H^-1 g_i / (n - 1), to first order.
test_loss = lambda w: np.mean(np.logaddexp(0.0, -y_test * (x_test @ w)))
towards = np.linalg.solve(hessian(w, x_train, y_train, everyone), ft.grad(test_loss)(w))
predicted = gradients @ towards / (len(gradients) - 1)
checked = np.concatenate([hardest, rng.choice(len(x_train), 40, replace=False)])
change = []
for i in tqdm(checked, desc="leaving one out", unit=" trainings"):
    without = everyone.copy()
    without[i] = 0.0
    change.append(test_loss(train(without, w)) - test_loss(w))
change = np.array(change)
correlation = np.corrcoef(predicted[checked], change)[0, 1]
print(f"test loss without an example, predicted and true change: correlation {correlation:.3f}", end="; ")
print(f"the largest are {predicted[checked].min():.5f} and {change.min():.5f}")
assert np.isin(hardest, wrong).sum() >= 18 and correlation > 0.95

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.3))
bins = np.geomspace(norms.min(), norms.max(), 30)
right_labels = np.setdiff1d(np.arange(len(norms)), wrong)
left.hist([norms[right_labels], norms[wrong]], bins, stacked=True, label=["right label", "wrong label"], color=["C0", "C1"])
left.set(xscale="log", xlabel="length of the example's gradient", ylabel="examples", title="Wrong labels pull hardest")
left.legend()
for mask, label, colour in ((np.isin(checked, wrong), "wrong label", "C1"), (~np.isin(checked, wrong), "right label", "C0")):
    right.plot(change[mask], predicted[checked][mask], "o", ms=4, color=colour, alpha=0.8, label=label)
right.axline((0, 0), slope=1, color="0.5", lw=1)
right.set(xlabel="true change, trained again", ylabel="predicted by gradient and Hessian", title="Test loss when one example is left out")
right.legend()
save(figure, "per_sample_gradients")
