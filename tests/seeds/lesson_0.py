import torch

x = torch.ones(5) # input tensor
y = torch.zeros(3)  # expected output

w = torch.randn(5, 3, requires_grad = True)
b = torch.randn(3, requires_grad = True)
z = torch.matmul(x, w) + b # y_hat

loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)

print('Gradient function for z = ', z.grad_fn)
print('Gradient function for loss = ', loss.grad_fn)

loss.backward()
print(w.grad)
print(b.grad)

x = torch.ones(5)
y = torch.zeros(3) 

w = torch.randn(5, 3, requires_grad = True)
b = torch.randn(3, requires_grad = True)
z = torch.matmul(x, w) + b

loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)

loss.backward(retain_graph=True)
print('w gradients after backward 1: ', w.grad)

loss.backward(retain_graph=True)
print('w gradients after backward 2: ', w.grad)

w.grad.zero_()
print('w gradients after grad.zero: ', w.grad)

z = torch.matmul(x, w) + b
print(z.requires_grad)

with torch.no_grad():
    z = torch.matmul(x, w) + b
print(z.requires_grad)

z = torch.matmul(x, w) + b
z_det = z.detach()
print(z_det.requires_grad)
