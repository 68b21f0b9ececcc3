"""Probability distributions, as PyTorch has them: densities, samples with and without gradients, entropies, distances."""

import sys as _sys

from functrace.torch._missing import missing as _missing
from functrace.torch.distributions import constraints as constraints
from functrace.torch.distributions import transforms as transforms
from functrace.torch.distributions.composed import Independent as Independent
from functrace.torch.distributions.composed import MixtureSameFamily as MixtureSameFamily
from functrace.torch.distributions.continuous import Cauchy as Cauchy
from functrace.torch.distributions.continuous import Chi2 as Chi2
from functrace.torch.distributions.continuous import Exponential as Exponential
from functrace.torch.distributions.continuous import Gamma as Gamma
from functrace.torch.distributions.continuous import HalfNormal as HalfNormal
from functrace.torch.distributions.continuous import Laplace as Laplace
from functrace.torch.distributions.continuous import LogNormal as LogNormal
from functrace.torch.distributions.continuous import Normal as Normal
from functrace.torch.distributions.continuous import StudentT as StudentT
from functrace.torch.distributions.continuous import Uniform as Uniform
from functrace.torch.distributions.discrete import Bernoulli as Bernoulli
from functrace.torch.distributions.discrete import Binomial as Binomial
from functrace.torch.distributions.discrete import Categorical as Categorical
from functrace.torch.distributions.discrete import Geometric as Geometric
from functrace.torch.distributions.discrete import Multinomial as Multinomial
from functrace.torch.distributions.discrete import OneHotCategorical as OneHotCategorical
from functrace.torch.distributions.discrete import Poisson as Poisson
from functrace.torch.distributions.distribution import Distribution as Distribution
from functrace.torch.distributions.divergences import kl_divergence as kl_divergence
from functrace.torch.distributions.divergences import register_kl as register_kl
from functrace.torch.distributions.further import Gumbel as Gumbel
from functrace.torch.distributions.further import HalfCauchy as HalfCauchy
from functrace.torch.distributions.further import InverseGamma as InverseGamma
from functrace.torch.distributions.further import Kumaraswamy as Kumaraswamy
from functrace.torch.distributions.further import LogisticNormal as LogisticNormal
from functrace.torch.distributions.further import NegativeBinomial as NegativeBinomial
from functrace.torch.distributions.further import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from functrace.torch.distributions.further import Pareto as Pareto
from functrace.torch.distributions.further import RelaxedBernoulli as RelaxedBernoulli
from functrace.torch.distributions.further import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from functrace.torch.distributions.further import Weibull as Weibull
from functrace.torch.distributions.multivariate import Beta as Beta
from functrace.torch.distributions.multivariate import Dirichlet as Dirichlet
from functrace.torch.distributions.multivariate import MultivariateNormal as MultivariateNormal
from functrace.torch.distributions.transformed import TransformedDistribution as TransformedDistribution
from functrace.torch.distributions.transforms import biject_to as biject_to
from functrace.torch.distributions.transforms import transform_to as transform_to

_PARTS = {  # PyTorch has a module for each; scripts import from them
    "composed": "independent mixture_same_family",
    "continuous": "cauchy chi2 exponential gamma half_normal laplace log_normal normal studentT uniform",
    "discrete": "bernoulli binomial categorical geometric multinomial one_hot_categorical poisson",
    "distribution": "utils",
    "divergences": "kl",
    "further": "gumbel half_cauchy inverse_gamma kumaraswamy logistic_normal negative_binomial pareto relaxed_bernoulli "
    "relaxed_categorical weibull",
    "multivariate": "beta dirichlet multivariate_normal",
    "transformed": "transformed_distribution",
    "transforms": "constraint_registry",
}
for _part, _names in _PARTS.items():
    for _name in _names.split():
        globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _sys.modules[f"{__name__}.{_part}"]
__getattr__ = _missing("torch.distributions")
