"""Probability distributions, as PyTorch has them: densities, samples with and without gradients, entropies, distances."""

import importlib as _importlib

from functrace.torch._missing import missing as _missing
from functrace.torch.distributions import constraints as constraints
from functrace.torch.distributions import transforms as transforms
from functrace.torch.distributions.constraint_registry import biject_to as biject_to
from functrace.torch.distributions.constraint_registry import transform_to as transform_to
from functrace.torch.distributions.distribution import Distribution as Distribution
from functrace.torch.distributions.divergences import kl_divergence as kl_divergence
from functrace.torch.distributions.divergences import register_kl as register_kl
from functrace.torch.distributions.transforms import identity_transform as identity_transform

_PARTS = {  # PyTorch has a module for each; scripts import from them
    "composed": "independent mixture_same_family transformed_distribution",
    "continuous": "cauchy chi2 exponential gamma generalized_pareto half_normal laplace log_normal normal studentT uniform",
    "discrete": "bernoulli binomial categorical geometric multinomial one_hot_categorical poisson",
    "distribution": "exp_family utils",
    "divergences": "kl",
    "further": "continuous_bernoulli fishersnedecor gumbel half_cauchy inverse_gamma kumaraswamy logistic_normal negative_binomial pareto "
    "relaxed_bernoulli relaxed_categorical von_mises weibull",
    "multivariate": "beta dirichlet lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
    "transforms": "",
}
_INNER = ("Binary", "Choosing", "Counted", "Covariant", "Half", "OfChoices", "ExpRelaxedCategorical", "LogitRelaxedBernoulli", "Rising")
_ELSEWHERE = {
    "ExponentialFamily": "exp_family",
    "OneHotCategoricalStraightThrough": "one_hot_categorical",
    "RelaxedOneHotCategorical": "relaxed_categorical",
}
for _part, _names in _PARTS.items():
    _module = _importlib.import_module(f"{__name__}.{_part}")
    _homes = {_name.replace("_", "").lower(): _name for _name in _names.split()}  # PyTorch's modules are named as the classes are
    for _name, _value in vars(_module).items():
        if (
            isinstance(_value, type)
            and issubclass(_value, (Distribution, transforms.Transform))
            and _name[0] != "_"
            and _name not in _INNER
        ):
            globals()[_name] = _value
            if _value.__module__ == _module.__name__ and issubclass(_value, Distribution):
                _value.__module__ = f"torch.distributions.{_homes.get(_name.lower()) or _ELSEWHERE.get(_name, 'distribution')}"
            if issubclass(_value, transforms.Transform):
                setattr(transforms, _name, _value)
                transforms.__all__ += [_name] if _name not in transforms.__all__ else []
    globals().update(dict.fromkeys(_names.split(), _module))
__getattr__ = _missing("torch.distributions")
