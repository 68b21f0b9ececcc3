import torch

a = torch.tensor([2., 3.], requires_grad=True)
b = torch.tensor([6., 4.], requires_grad=True)

Q = 3*a**3 - b**2

print(repr(Q))

Q_sum = Q.sum()

print(repr(Q_sum))

# Q_sum.backward(retain_graph=True)
Q_sum.backward()

print(9*a**2 == a.grad)
print(-2*b == b.grad)

print(repr(Q.shape))

external_grad = torch.tensor([1., 1.])

try:
    Q.backward(gradient=external_grad)
except Exception as error:
    print(f'{type(error).__name__}: {error}')

x = torch.rand(5, 5)
y = torch.rand(5, 5)
z = torch.rand((5, 5), requires_grad=True)

a = x + y
print(f"Does `a` require gradients? : {a.requires_grad}")
b = x + z
print(f"Does `b` require gradients?: {b.requires_grad}")
