"""The package beside PyTorch in which `torch.func` began."""

import warnings

import functorch
import torch
import torch.nn as nn
from functorch import combine_state_for_ensemble, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, make_functional
from functorch import make_functional_with_buffers, vjp, vmap

with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    vmap(torch.sin)(torch.ones(2))
    make_functional(nn.Linear(1, 1))
print([(str(w.message), w.category.__name__, w.lineno) for w in found])

x, y = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]]), torch.tensor([[1.0], [0.0], [2.0]])
model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(torch.arange(p.numel()).reshape(p.shape) / 4 - k / 8)
f, params = make_functional(model)
print(f, type(params), [(type(p).__name__, tuple(p.shape), p.requires_grad) for p in params], params[0] is model[0].weight)


def loss(params, x, y):
    return ((f(params, x) - y) ** 2).mean()


print(f(params, x), grad(loss)(params, x, y))
print([p.shape for p in vmap(grad(loss), (None, 0, 0))(params, x, y)])
loss(params, x, y).backward()
print(params[-1].grad, model[-1].bias.grad)
print([p.requires_grad for p in make_functional(model, disable_autograd_tracking=True)[1]], f.param_names)

normed = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
try:
    make_functional(normed)
except RuntimeError as error:
    print(error)
fb, params, buffers = make_functional_with_buffers(normed)
print(fb, fb.param_names, fb.buffer_names, buffers)
fb(params, buffers, x)
print(buffers, normed[0].running_mean)

models = [nn.Linear(2, 1) for _ in range(3)]
fm, params, buffers = combine_state_for_ensemble(models)
print(fm, [tuple(p.shape) for p in params], buffers, [p.requires_grad for p in params])
print((vmap(fm, (0, 0, None))(params, buffers, x) == torch.stack([m(x) for m in models])).all())
for wrong in ([], [nn.Linear(1, 1), nn.Tanh()], [nn.Linear(1, 1), nn.Linear(1, 1).eval()]):
    try:
        combine_state_for_ensemble(wrong)
    except RuntimeError as error:
        print(error)

print(jacrev(torch.exp)(x[0]), jacfwd(torch.exp)(x[0]), hessian(lambda v: (v**3).sum())(x[0]), grad_and_value(torch.sum)(x[0]))
print(vjp(torch.exp, x[0])[1](x[1]), jvp(torch.exp, (x[0],), (x[1],)), functorch.__version__[:4])
tied = nn.Linear(2, 2, bias=False)
fs, params = make_functional(nn.Sequential(tied, tied))
print(len(params), fs.param_names, (fs([2 * p for p in params], x) / fs(params, x)).round())
