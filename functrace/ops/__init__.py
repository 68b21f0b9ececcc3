"""The one place where ops are declared. See `kinds` for how, `registry` for what becomes of a declaration."""

from functrace.ops import contract, create, elementwise, functions, index, inplace, kinds, methods, reduce, registry, shape

__all__ = ["contract", "create", "elementwise", "functions", "index", "inplace", "kinds", "methods", "reduce", "registry", "shape"]
