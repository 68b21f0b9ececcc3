"""Random numbers without a state: functions of a key, on NumPy's Philox. The same key gives the same numbers, always.

A key is an array of two uint64, a pytree leaf like any other: passed to a jitted function it gives new numbers without recording
anew, a batch of keys under `vmap` gives each example draws of its own, and a loop can carry one. There is no global state, so a key is
used once: split it first.

>>> import functrace as ft
>>> from functrace import random
>>> key = random.key(0)
>>> for_weights, for_noise = random.split(key)
>>> random.normal(for_weights, (3,))
array([ 0.90764259, -1.83926014,  0.41338104])
>>> ft.grad(lambda scale: random.normal(for_noise, (100,), scale=scale).std())(2.0).round(3)
np.float64(1.036)

Draws from a distribution are differentiable in its parameters wherever they depend on them smoothly (reparameterisation; for `gamma`,
`beta`, `dirichlet` and `truncated_normal` by the implicit derivative of the inverse distribution function, Figurnov et al. 2018).
Integers and booleans have the derivative zero, as comparisons have.

The stream: `key(seed)` is `numpy.random.SeedSequence(seed).generate_state(2, uint64)`, Philox's key. Bits are the output of
Philox4x64-10 (Salmon et al. 2011) as `numpy.random.Philox(key=key, counter=[0, 0, n, use])` gives it, from its start; `use` is 0 for
numbers (n counts the times that `randint` rejects), 1 for `split`, 2 for `fold_in`, whose first word is the number folded in. A uniform
float64 is the upper 53 bits of a word times 2^-53, a normal pair is Box & Muller's of two words. So bits and uniform numbers are the
same on every machine, others to the rounding of its `log` and `cos`. A change of any of this would be a change of the major version.
"""

from functrace import edge as _edge
from functrace.random.distributions import bernoulli as bernoulli
from functrace.random.distributions import beta as beta
from functrace.random.distributions import categorical as categorical
from functrace.random.distributions import choice as choice
from functrace.random.distributions import dirichlet as dirichlet
from functrace.random.distributions import exponential as exponential
from functrace.random.distributions import gamma as gamma
from functrace.random.distributions import gumbel as gumbel
from functrace.random.distributions import laplace as laplace
from functrace.random.distributions import multivariate_normal as multivariate_normal
from functrace.random.distributions import normal as normal
from functrace.random.distributions import permutation as permutation
from functrace.random.distributions import rademacher as rademacher
from functrace.random.distributions import randint as randint
from functrace.random.distributions import truncated_normal as truncated_normal
from functrace.random.distributions import uniform as uniform
from functrace.random.keys import bits as bits
from functrace.random.keys import fold_in as fold_in
from functrace.random.keys import key as key
from functrace.random.keys import split as split

__getattr__ = _edge.renamed(
    __name__,
    {
        "PRNGKey": "functrace.random.key",
        "rand random": "functrace.random.uniform(key, shape)",
        "randn standard_normal": "functrace.random.normal(key, shape)",
        "shuffle": "functrace.random.permutation(key, x)",
        "orthogonal": "functrace.nn.orthogonal(key, shape)",
        "default_rng seed": "numpy.random, or functrace.random.key",
        "cauchy logistic t poisson chisquare": "functrace.scipy.stats: its ppf of functrace.random.uniform(key, shape)",
    },
)
