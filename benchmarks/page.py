"""The tables of `docs/performance.md`, from the numbers of a run that were saved as `benchmarks/results.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import duration

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
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
        one = case["seconds"]["functrace"]
        cells = [_best(case["seconds"], family) for family in families]
        ratios = " | ".join(_ratio(None if s is None else s / one) for s in cells)
        name = case["workload"].removeprefix("jit, ").split(" 1e")[0]
        out += f"| {name}, {case['size']}: {case['about']} | {_time(one)} | {ratios} |\n"
    return out


def eager(record: dict[str, Any]) -> str:
    """Time of functrace, and the others' as multiples of it."""
    return _rows([c for c in record["cases"] if not c["workload"].startswith("jit, ")], EAGER, "functrace")


def compiled(record: dict[str, Any]) -> str:
    """The same with `jit`."""
    cases = [c for c in record["cases"] if c["workload"].startswith("jit, ") and c["workload"] != "jit, ready"]
    return _rows(cases, COMPILED, "functrace.jit")


def ready(record: dict[str, Any]) -> str:
    """Time until a compiled function has run for the first time."""
    out = "| to record, compile and run for the first time | functrace.jit | of its gradient | JAX jit |\n|---|---|---|---|\n"
    for case in record["cases"]:
        if case["workload"] == "jit, ready":
            cells = [case["seconds"].get(label) for label in ("functrace", "functrace, gradient", "JAX jit")]
            out += f"| a loop of {case['size']} | {' | '.join('–' if s is None else _time(s) for s in cells)} |\n"
    return out


def footprint(record: dict[str, Any]) -> str:
    """Import times and memory."""
    found = record["footprint"]
    out = "| | " + " | ".join(found["import"]) + " |\n|" + "---|" * (len(found["import"]) + 1) + "\n"
    out += "| import, over NumPy's own | " + " | ".join(_time(s) for s in found["import"].values()) + " |\n\n"
    memory = found["memory"]
    return out + (
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


TABLES = {f.__name__: f for f in (machine, eager, compiled, ready, footprint)}


def page(text: str) -> str:
    """The page with its tables as the saved numbers say."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    return _MARKED.sub(lambda m: f"{m[1]}{TABLES[m[2]](record)}{m[3]}", text)


def write() -> None:
    """Bring the page up to date."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
