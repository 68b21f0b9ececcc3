"""Benchmarks: functrace beside NumPy by hand, PyTorch, JAX, autograd and MyGrad, in one run and interleaved.

`python -m benchmarks` measures every workload; `--quick` in short, `--only gmm` one of them, `--json FILE` keeps the numbers.
Every module here but `harness` is a workload. Each contestant is a function that takes the problem and returns a callable of
no arguments: one gradient, written as a user of that library writes it. Contestants that disagree in the gradient are not timed.
"""
