"""Learn the basics, 1: tensors. What they are made from, what they know of themselves, and what can be done with them."""

import numpy as np
import torch

# From data, from an array (whose memory is shared), and from another tensor.
data = [[1, 2], [3, 4]]
x = torch.tensor(data)
array = np.array(data)
shared = torch.from_numpy(array)
array *= 10
print(x, shared, torch.ones_like(x), sep="\n")
torch.manual_seed(0)
print(torch.rand_like(x, dtype=torch.float), torch.rand(2, 3), torch.zeros(1, 2), sep="\n")

# Shape, type, place.
t = torch.randn(3, 4)
print(t.shape, t.dtype, t.device)

# Indexing and slicing are NumPy's.
t = torch.arange(12.0).reshape(3, 4)
print("First row:", t[0])
print("Last column:", t[..., -1])
t[:, 1] = 0
print(t)

# Joining, and products of matrices and of elements.
print(torch.cat([t, t], dim=1).shape, torch.stack([t, t]).shape)
print(t @ t.T)
print(torch.equal(t @ t.T, t.matmul(t.T)), torch.equal(t * t, t.mul(t)))

# One number, and operations in place.
total = t.sum()
print(total, total.item(), type(total.item()).__name__)
print(t.add_(5))

# A view shares memory, and so does the array.
flat = t.view(-1)
flat[0] = 100
row = t.numpy()[0]
row[1] = -1
print(t[0], flat[:2])
print(t.mean(dim=0), t.std(), t.argmax(dim=1), sep="\n")
