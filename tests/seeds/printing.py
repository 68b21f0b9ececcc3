# How tensors are printed: shapes, dtypes, magnitudes, special values, options.

import math

import torch

SHAPES = [(), (1,), (3,), (40,), (1001,), (0,), (2, 0, 3), (2, 3), (9, 30), (40, 40), (2, 3, 4), (1, 2, 1, 3), (11, 2, 60)]
SCALES = [1.0, 0.001, 1e-6, 37.0, 1e6, 1e9, 0.5]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]


def made(shape, scale, dtype):
    n = math.prod(shape)
    values = (torch.arange(n) * 7919 % 1009 - 500).double() * scale
    if dtype.is_complex:
        return torch.complex(values, values.flip(0)).to(dtype).reshape(shape) if hasattr(torch, "complex") else None
    if not dtype.is_floating_point:
        values = values.clamp(0 if dtype == torch.uint8 else -1e6, 200 if dtype == torch.uint8 else 1e6)
    return values.to(dtype).reshape(shape)


count = 0
for shape in SHAPES:
    for scale in SCALES:
        for dtype in DTYPES[:7]:
            count += 1
            if count % 3 and dtype not in (torch.float32, torch.float64):
                continue
            t = made(shape, scale, dtype)
            if dtype.is_floating_point and count % 5 == 0:
                t.requires_grad_()
            print(shape, scale, t)
for values in ([math.nan, 1.0], [math.inf, -math.inf, 0.5], [0.0, -0.0], [1.0, 1e-8], [1e8, 1.0], [1e5, 1.5], [123456.0], [0.1, 1000.0], [1 + 2j, -1.5j]):
    print(torch.tensor(values))
x = made((30,), 0.37, torch.float32).requires_grad_()
print(x * 2, (x * 2).sum(), x.reshape(5, 6).t() * 1)
for options in ({"precision": 2}, {"linewidth": 40}, {"threshold": 5, "edgeitems": 1}, {"sci_mode": True}, {"sci_mode": False}, {"profile": "full"}, {"profile": "short"}):
    torch.set_printoptions(profile="default")
    torch.set_printoptions(**options)
    print(x, made((4, 50), 0.0123, torch.float64))
