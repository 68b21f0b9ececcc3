"""Learn the basics, 4: automatic differentiation. The graph, gradients, and how to do without them."""

import torch

x = torch.ones(5)
y = torch.zeros(3)
torch.manual_seed(0)
w = torch.randn(5, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
z = torch.matmul(x, w) + b
loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
print("z:", type(z.grad_fn).__name__, " loss:", type(loss.grad_fn).__name__)

loss.backward()
print(w.grad, b.grad, sep="\n")

# No gradient: inside no_grad, or of a detached tensor.
with torch.no_grad():
    print((torch.matmul(x, w) + b).requires_grad)
print(z.detach().requires_grad)

# A result that is not one number needs a gradient to start from; gradients add up.
inp = torch.eye(4, 5, requires_grad=True)
out = (inp + 1).pow(2).t()
out.backward(torch.ones_like(out), retain_graph=True)
print("First call\n", inp.grad, sep="")
out.backward(torch.ones_like(out), retain_graph=True)
print("Second call\n", inp.grad, sep="")
inp.grad.zero_()
out.backward(torch.ones_like(out))
print("After zeroing\n", inp.grad, sep="")

# The graph is freed.
try:
    out.backward(torch.ones_like(out))
except RuntimeError as error:
    print("RuntimeError:", str(error)[:55] + "...")
