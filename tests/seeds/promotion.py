# Type promotion: every pair of dtypes, dtypes and Python numbers, and what is refused of which dtype.

import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex64, torch.complex128,
]
OPERATIONS = """
x + y; x * y; x / y; x ** y; x // y; x % y; x - y; x < y; torch.maximum(x, y); torch.cat([x, y]); torch.where(x == 1, x, y);
torch.atan2(x, y); torch.fmod(x, y); x.clone().add_(y); x.clone().div_(y); x.clone().copy_(y); x.dot(y); torch.stack([x, y]);
torch.lerp(x, y, 0.5); x & y; x << y; torch.hypot(x, y); torch.isclose(x, y); torch.logical_and(x, y); torch.outer(x, y)
"""
WITH_NUMBERS = "x + y; y + x; x * y; x / y; x - y; y - x; x ** y; y ** x; x // y; x % y; x == y; torch.where(x == 1, x, y)"
METHODS = """
sum prod mean std var cumsum cumprod max min argmax sort topk unique abs neg sign sgn exp sqrt sin floor ceil round sigmoid relu tanh
log square logical_not bitwise_not isnan isfinite nonzero median mode any amax norm logsumexp softmax diff trunc frac erf clamp angle
abs_ neg_ double half int long
"""
ARGUMENTS = {"softmax": (0,), "cumsum": (0,), "cumprod": (0,), "logsumexp": (0,), "topk": (1,), "clamp": (0, 1)}


def told(make):
    try:
        out = make()
        return str(out.dtype if isinstance(out, torch.Tensor) else out)
    except Exception as error:
        return f"{type(error).__name__} {error}"[:100]


for a in DTYPES:
    print(a, [str(torch.promote_types(a, b))[6:] for b in DTYPES])
SOME = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64, torch.complex64]
for a in SOME:
    for b in [*SOME, True, 1, 1.5, 1j]:
        whole = isinstance(b, torch.dtype)
        names = {"torch": torch, "x": torch.ones(2, dtype=a), "y": torch.ones(2, dtype=b) if whole else b}
        for source in (OPERATIONS if whole else WITH_NUMBERS).replace("\n", " ").split("; "):
            print(a, b, source.strip(), told(lambda: eval(source.strip(), names)))
for a in DTYPES:
    for name in METHODS.split():
        if not (a.is_complex and name in ("sgn", "angle")):
            print(a, name, told(lambda: getattr(torch.ones(3, dtype=a), name)(*ARGUMENTS.get(name, ()))))
