"""The one command: `python -m benchmarks [--quick] [--only NAME] [--json FILE] [--profile] [--docs]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from importlib import metadata
from typing import Any

from benchmarks import footprint, page
from benchmarks.harness import OURS, Workload, measure, ratios, table

MODULES = "chain small mlp gmm lstm bundle hessian jacobian pairs training elementwise jit reverse ode".split()


def facts() -> dict[str, Any]:
    """What the numbers depend on."""
    versions = {}
    for name in ("numpy", "functrace", "torch", "jax", "autograd", "mygrad"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "the folder here" if name == "functrace" else "absent"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system(), "cores": cores, **versions}


def workloads(only: list[str]) -> list[tuple[str, Workload]]:
    """All workloads, or those whose module or name contains one of `only`."""
    found = []
    for module in (f"benchmarks.{name}" for name in MODULES):
        for workload in importlib.import_module(module).WORKLOADS:
            if not only or any(part in f"{module} {workload.name}" for part in only):
                found.append((module, workload))
    return found


def profile(workload: Workload, size: str) -> None:
    """Where functrace's contestants spend their time, by cProfile."""
    import cProfile
    import pstats
    import time

    problem = workload.problem(**workload.sizes[size])
    for kind, label, build in workload.contestants:
        if kind == OURS:
            run = build(problem)
            run()
            profiler, end = cProfile.Profile(), time.perf_counter() + 1.0
            while time.perf_counter() < end:
                profiler.runcall(run)
            print(f"\n{workload.name}, {size}: {label}")
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> int:
    """Run what was asked for; the exit status counts contestants that failed or disagreed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only workloads with NAME in their name; repeatable")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to FILE")
    parser.add_argument("--profile", action="store_true", help="cProfile of functrace in place of times")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the tables of docs/performance.md from benchmarks/results.json; with --json after the run, else without one",
    )
    options = parser.parse_args()
    if options.docs and not options.json:
        page.write()
        return 0

    record: dict[str, Any] = {"facts": facts(), "cases": []}
    print(", ".join(f"{key} {value}" for key, value in record["facts"].items()), flush=True)
    wrong = 0
    for module, workload in workloads(options.only):
        for size in workload.sizes:
            if options.quick and workload.quick and size not in workload.quick:
                continue
            if options.profile:
                profile(workload, size)
                continue
            rows = measure(module, workload, size, 0.3 if options.quick else 1.5)
            print("\n" + table(f"{workload.name}, {size}: {workload.about}", workload, rows), flush=True)
            wrong += sum(row.note.startswith(("FAILED", "DISAGREES")) for row in rows)
            record["cases"].append(
                {
                    "workload": workload.name,
                    "size": size,
                    "about": workload.about,
                    "seconds": {row.label: row.seconds for row in rows if row.samples},
                    "page faults": {row.label: row.faults for row in rows if row.samples},
                    "notes": {row.label: row.note for row in rows if row.note},
                    "targets": [{**vars(target), "ratio": ratio} for target, ratio in ratios(workload, rows)],
                }
            )
    if not options.profile and (not options.only or "footprint" in options.only):
        record["footprint"] = footprint.report(options.quick)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    if options.docs:
        page.write()
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main())
