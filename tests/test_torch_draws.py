"""Random tensors and first values: PyTorch's numbers in every dtype and layout, and as many of its stream."""

import numpy as np
import pytest

import functrace.torch as shim
from tests.test_torch_nn import oracle, outcome, with_oracle

LAYOUTS = {
    "rows": lambda torch, dtype: torch.zeros(5, 4, dtype=dtype),
    "transposed": lambda torch, dtype: torch.zeros(4, 5, dtype=dtype).t(),
    "every other": lambda torch, dtype: torch.zeros(5, 8, dtype=dtype)[:, ::2],
    "turned": lambda torch, dtype: torch.zeros(3, 4, 2, dtype=dtype).permute(1, 2, 0),
}
DTYPES = ("float16", "float32", "float64", "complex64")


def equal(run):
    """The same numbers, and the same one after them."""
    both = lambda torch: (run(torch), torch.rand(1))
    np.testing.assert_equal(outcome(both, shim), outcome(both, oracle))


def test_half_numbers_are_drawn_as_single_ones_and_rounded():
    shim.manual_seed(0)
    short = shim.randn(17, dtype=shim.float16)
    assert short[:3].tolist() == [-1.1259765625, -1.3525390625, -1.6962890625]  # PyTorch's
    assert shim.rand(1).item() == 0.17591017484664917
    shim.manual_seed(0)
    single = shim.randn(16)
    shim.manual_seed(0)
    assert shim.equal(shim.randn(16, dtype=shim.float16), single.half())
    shim.manual_seed(0)
    single = shim.empty(40).uniform_(0, 0.3)
    shim.manual_seed(0)
    assert shim.equal(shim.empty(40, dtype=shim.float16).uniform_(0, 0.3), single.half())


@pytest.mark.parametrize("fill", [lambda x: x.normal_(), shim.randn_like, shim.nn.init.normal_], ids=["normal_", "randn_like", "init"])
def test_normal_numbers_are_drawn_in_pairs_where_the_elements_do_not_lie_in_order(fill):
    shim.manual_seed(0)
    pairs = shim.cat([shim.randn(10), shim.randn(10)])
    shim.manual_seed(0)
    assert shim.equal(fill(shim.zeros(4, 5).t()).t().flatten(), pairs)


@with_oracle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_of_any_layout_and_dtype_are_pytorchs(layout, dtype):
    make = lambda torch: LAYOUTS[layout](torch, getattr(torch, dtype))
    for mean, std in ((0, 1), (0.1, 1e-4), (-2.5, 3)):
        equal(lambda torch, mean=mean, std=std: make(torch).normal_(mean, std))
        equal(lambda torch, mean=mean, std=std: make(torch).uniform_(mean, mean + std))
    equal(lambda torch: torch.randn_like(make(torch)))
    equal(lambda torch: torch.rand_like(make(torch)))
    if dtype != "complex64":
        for n in (15, 16, 17, 31, 33, 48):
            equal(lambda torch, n=n: torch.randn(n, dtype=getattr(torch, dtype)))


FIRST = (
    ("uniform_", {"a": -2.0}), ("normal_", {"std": 0.02}), ("trunc_normal_", {}), ("trunc_normal_", {"mean": 2.0, "std": 0.5, "b": 1.2}), ("constant_", {"val": 3}),
    ("xavier_uniform_", {}), ("xavier_normal_", {"gain": 2.0}), ("kaiming_uniform_", {"mode": "fan_out"}), ("kaiming_normal_", {"nonlinearity": "tanh"}),
)  # fmt: skip


@with_oracle
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_first_values_of_any_layout_and_dtype_are_pytorchs(layout, dtype):
    for name, options in FIRST:
        equal(
            lambda torch, name=name, options=options: getattr(torch.nn.init, name)(LAYOUTS[layout](torch, getattr(torch, dtype)), **options)
        )


@with_oracle
def test_what_init_refuses_and_returns_is_pytorchs():
    for run in (
        lambda torch: torch.nn.init.sparse_(
            torch.zeros(5, 4), 0.5, generator=torch.Generator().manual_seed(3)
        ),  # the zeros are of the other
        lambda torch: torch.nn.init.normal_(torch.zeros(1, 4).expand(3, 4)),
        lambda torch: torch.nn.init.trunc_normal_(torch.zeros(20, dtype=torch.complex64)),
        lambda torch: torch.nn.init.orthogonal_(torch.zeros(0, 3)),
        lambda torch: torch.nn.init.orthogonal_(torch.zeros(3, 3, dtype=torch.bool)),
        lambda torch: torch.nn.init.constant_(torch.zeros(2), 1j),
        lambda torch: torch.nn.init.normal_(torch.zeros(0, 3), std=-1.0),
        lambda torch: torch.nn.init.kaiming_normal_(torch.zeros(3), a=True),
        lambda torch: torch.zeros(3).uniform_(float("nan"), 1),
        lambda torch: torch.zeros(3).uniform_(0, 1e39),
        lambda torch: torch.zeros(3, dtype=torch.float16).uniform_(-1e5, 0),
    ):
        equal(run)
    assert type(shim.nn.init.calculate_gain("linear")) is type(oracle.nn.init.calculate_gain("linear"))


def test_uniform_numbers_lie_below_the_upper_bound_where_they_are_rounded_up_to_it():
    shim.manual_seed(0)
    x = shim.empty(20000, dtype=shim.float16).uniform_(1, 2)
    assert x.max() < 2 and x.min() == 1


def test_normal_numbers_made_ahead_are_those_of_the_stream():
    shim.manual_seed(0)
    small = shim.cat([shim.randn(2, 8) for _ in range(100)]).flatten()
    shim.manual_seed(0)
    assert shim.equal(shim.randn(1600), small)
    state = shim.get_rng_state()
    then = shim.randn(3, 16), shim.rand(5), shim.randn(32)
    shim.set_rng_state(state)
    assert all(map(shim.equal, (shim.randn(3, 16), shim.rand(5), shim.randn(32)), then))


@with_oracle
@pytest.mark.parametrize("seed", range(4))
def test_draws_of_all_kinds_in_turn_are_pytorchs(seed):
    def run(torch):
        rng, found = np.random.default_rng(seed), []
        torch.manual_seed(seed)
        for _ in range(120):
            n = int(rng.choice([1, 5, 16, 17, 32, 64, 624, 640, 1248]))
            draw = rng.choice(["randn"] * 6 + ["rand", "randperm", "double", "state"])
            if draw == "state":
                found.append(torch.get_rng_state().numpy())
            else:
                found.append((torch.randn(n, dtype=torch.float64) if draw == "double" else getattr(torch, draw)(n)).numpy())
        return found

    for mine, theirs in zip(run(shim), run(oracle)):
        np.testing.assert_array_equal(mine, theirs)


def test_an_event_is_a_uniform_number_below_its_chance_to_the_last_bit():
    shim.manual_seed(0)
    drawn = shim.rand(1 << 17, dtype=shim.float64).numpy()
    for chance in (0.0, 1.0, 0.25, 1 / 3, *drawn[[0, 5, 40000]], np.nextafter(drawn[40000], 1)):
        shim.manual_seed(0)
        np.testing.assert_array_equal(shim.empty(drawn.size, dtype=shim.bool).bernoulli_(float(chance)).numpy(), drawn < chance)
