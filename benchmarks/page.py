"""The tables of `docs/performance.md` and of the README, from the numbers of a run, saved as `benchmarks/results.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import duration

RESULTS = Path(__file__).with_name("results.json")
ROOT = Path(__file__).resolve().parent.parent
PAGE, README = ROOT / "docs" / "performance.md", ROOT / "README.md"
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

EAGER = ("NumPy by hand", "PyTorch", "autograd", "MyGrad", "JAX")
COMPILED = ("NumPy by hand", "NumPy tuned", "PyTorch", "torch.compile", "JAX jit")


def _best(seconds: dict[str, float], family: str) -> float | None:
    """The fastest of a library's ways to do it: those labelled with its name, or its name and a comma or a bracket."""
    found = [s for label, s in seconds.items() if re.split(r",| \(", label)[0] == family and not label.endswith("1 thread")]
    return min(found, default=None)


def _time(seconds: float) -> str:
    return duration(seconds).strip().replace("us", "µs")


def _ratio(x: float | None) -> str:
    return "–" if x is None else f"{x:.2g}" if x < 10 else f"{x:.0f}"


def _rows(cases: list[dict[str, Any]], families: tuple[str, ...], ours: str) -> str:
    out = f"| workload | {ours} | {' | '.join(families)} |\n|---|{'---|' * (len(families) + 1)}\n"
    for case in cases:
        one = _best(case["seconds"], "functrace") or case["seconds"]["functrace.torch"]
        cells = [_best(case["seconds"], family) for family in families]
        ratios = " | ".join(_ratio(None if s is None else s / one) for s in cells)
        name = case["workload"].removeprefix("jit, ").split(" 1e")[0]
        about = case["about"].replace("|", "\\|")
        out += f"| {name}, {case['size']}: {about} | {_time(one)} | {ratios} |\n"
    return out


def eager(record: dict[str, Any]) -> str:
    """Time of functrace, and the others' as multiples of it."""
    return _rows([c for c in record["cases"] if not c["workload"].startswith(("jit, ", "reverse, "))], EAGER, "functrace")


def compiled(record: dict[str, Any]) -> str:
    """The same with `jit`."""
    cases = [c for c in record["cases"] if c["workload"].startswith("jit, ") and c["workload"] != "jit, ready"]
    return _rows(cases, COMPILED, "functrace.jit")


def ready(record: dict[str, Any]) -> str:
    """Time until a compiled function has run for the first time."""
    out = "| to record, compile and run for the first time | functrace.jit | of its gradient | JAX jit | torch.compile |\n"
    out += "|---|---|---|---|---|\n"
    for case in record["cases"]:
        if case["workload"] == "jit, ready":
            cells = [case["seconds"].get(label) for label in ("functrace", "functrace, gradient", "JAX jit", "torch.compile")]
            out += f"| a loop of {case['size']} | {' | '.join('–' if s is None else _time(s) for s in cells)} |\n"
    return out


def reverse(record: dict[str, Any]) -> str:
    """Time of a compiled value and gradient beside that of the value."""
    out = "| workload | value | value and gradient | ratio |\n|---|---|---|---|\n"
    for case in record["cases"]:
        if case["workload"].startswith("reverse, "):
            value, both = (case["seconds"][label] for label in ("functrace, value", "functrace, value and gradient"))
            name = case["workload"].removeprefix("reverse, ").removeprefix("jit, ")
            out += f"| {name}, {case['size']} | {_time(value)} | {_time(both)} | {_ratio(both / value)} |\n"
    return out


SUMMARY = {  # for the README: workload and size, and what they are called there
    ("chain", "4 float64"): "100 × `sin(x) * x + x`, 4 elements",
    ("mlp", "batch 128, float32"): "perceptron 784-256-128-10, batch 128, float32",
    ("gmm, product", "d 10"): "Gaussian mixture, 1000 points, d = 10",
    ("lstm, batch", "T 50"): "LSTM, 50 steps unrolled, batch 32",
    ("lstm, long", "T 128"): "LSTM, 128 steps unrolled, 14 units",
    ("bundle", "1000 observations"): "bundle adjustment, Jacobian for 1000 observations",
    ("hessian", "50 features"): "logistic regression, Hessian of 50 parameters",
    ("jit, chain", "4 float64"): "100 × `sin(x) * x + x`, 4 elements",
    ("jit, elementwise 1e4 float64", "1e4 float64"): "gradient of a sum of `tanh`, `exp`, `log`, 10 000 float64",
    ("jit, elementwise 1e7 float64", "1e7 float64"): "the same, 10 000 000 float64",
    ("jit, mlp", "batch 128, float32"): "perceptron",
    ("jit, gmm, product", "d 10"): "Gaussian mixture, d = 10",
    ("jit, bundle", "20000 observations"): "bundle adjustment, 20 000 observations",
    ("jit, hessian", "50 features"): "logistic regression, Hessian",
    ("jit, pairs", "1000 x 1000"): "sum over all pairs of 1000 points in space",
    ("jit, rnn", "500 steps, 32 units"): "recurrent network, `scan` of 500 steps",
    ("jit, ode", "500 steps"): "fit of a differential equation, 500 steps of Runge-Kutta",
}


def _summary(record: dict[str, Any], families: dict[str, str], compiled: bool) -> str:
    out = f"| workload | functrace{'.jit' * compiled} | {' | '.join(families.values())} |\n|---|{'---|' * (len(families) + 1)}\n"
    seconds = {(c["workload"], c["size"]): c["seconds"] for c in record["cases"]}
    for case, name in SUMMARY.items():
        if case[0].startswith("jit, ") == compiled:
            cells, one = [_best(seconds[case], family) for family in families], _best(seconds[case], "functrace") or 1.0
            out += f"| {name} | 1 | {' | '.join(_ratio(None if s is None else s / one) for s in cells)} |\n"
    return out


def summary(record: dict[str, Any]) -> str:
    """The README's first table."""
    families = dict(zip(EAGER, ("NumPy by hand", "PyTorch", "autograd", "MyGrad", "JAX, eager")))
    times = record["footprint"]["import"]
    cells = [_time(times[name]) if name in times else "–" for name in ("functrace", "numpy", "torch", "autograd", "mygrad", "jax")]
    return _summary(record, families, False) + f"| import, over NumPy's own | {' | '.join(cells)} |\n"


def summary_compiled(record: dict[str, Any]) -> str:
    """The README's second table."""
    return _summary(record, {"NumPy by hand": "NumPy by hand", "PyTorch": "PyTorch, eager", "JAX jit": "JAX, jit"}, True)


def footprint(record: dict[str, Any]) -> str:
    """Import times and memory."""
    found = record["footprint"]
    out = "| | " + " | ".join(found["import"]) + " |\n|" + "---|" * (len(found["import"]) + 1) + "\n"
    out += "| import, over NumPy's own | " + " | ".join(_time(s) for s in found["import"].values()) + " |\n\n"
    whole = {"numpy": "NumPy", "functrace.torch": "functrace.torch", "torch": "PyTorch"}
    started = ", ".join(f"{name} {_time(found['start'][key])}" for key, name in whole.items())
    memory = found["memory"]
    return out + (
        f"A program that only imports it, from start to end: {started}.\n\n"
        f"Memory of the gradient of 20 steps `x = sin(x) * x + x`, in arrays of the size of `x`: the tape keeps "
        f"{memory['residuals']:.0f};\n"
        f"the peak of `grad` is {memory['peak of grad']:.0f}. A tape of scalars takes {found['tape']['bytes per entry']:.0f} bytes "
        f"an entry.\n"
    )


def machine(record: dict[str, Any]) -> str:
    """What the numbers depend on."""
    facts = record["facts"]
    libraries = ", ".join(f"{name} {facts[name]}" for name in ("numpy", "torch", "jax", "autograd", "mygrad") if facts[name] != "absent")
    return (
        f"One run on one machine: {facts['cores']} cores, {facts['machine']}, {facts['system']}, Python {facts['python']}, {libraries}.\n"
    )


TABLES = {f.__name__: f for f in (machine, eager, compiled, reverse, ready, footprint, summary, summary_compiled)}


def page(text: str) -> str:
    """A page with its tables as the saved numbers say."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    return _MARKED.sub(lambda m: f"{m[1]}{TABLES[m[2]](record)}{m[3]}", text)


def write() -> None:
    """Bring the pages up to date."""
    for path in (PAGE, README):
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
