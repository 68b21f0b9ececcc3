"""Writes the gallery from the examples' first lines: `python -m docs.gallery`; with `--pictures` their pictures too, by running them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"
WIDTH, COLOURS, COLUMNS = 480, 64, 2

GROUPS = {
    "Learning": (
        "polynomial_regression digits_logistic digits_mlp digits_cnn character_rnn per_sample_gradients meta_learning learned_penalties"
    ),
    "Statistics": "gaussian_process gaussian_mixture variational_inference hamiltonian_monte_carlo kalman_filter",
    "Physics and control": "neural_ode pendulum_control cart_pole brachistochrone inverse_heat normal_modes",
    "Geometry": "bundle_adjustment optimal_transport",
}
HEAD = """# Gallery

Short programs, each with a picture at its end. Run one with `python examples/NAME.py`; it needs `pip install '.[examples]'`, prints what it
finds, and writes its picture to `pictures/`.
"""
LESSONS = """
## Lessons

Told twice, with functions and with tensors, and without pictures.

"""


def about(name: str) -> str:
    """The first sentence of an example's docstring."""
    source = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split()).replace("|", "\\|")


def drawing() -> set[str]:
    """The examples that end in a picture."""
    return {p.stem for p in (ROOT / "examples").glob("*.py") if "from _picture import" in p.read_text(encoding="utf-8")}


def _cell(name: str) -> str:
    text = re.sub(r"^([^:,.?]*)", r"**\1**", about(name), count=1)
    return f"[![{name.replace('_', ' ')}](gallery/{name}.png)](../examples/{name}.py)<br>{text} [{name}.py](../examples/{name}.py)"


def page() -> str:
    """The gallery as it should be."""
    out = [HEAD]
    for title, group in GROUPS.items():
        names = group.split()
        rows = [names[k : k + COLUMNS] for k in range(0, len(names), COLUMNS)]
        out += [f"\n## {title}\n", "|" + " |" * COLUMNS, "|" + "---|" * COLUMNS]
        out += ["| " + " | ".join([*map(_cell, row), *[""] * (COLUMNS - len(row))]) + " |" for row in rows]
    known = drawing()
    lessons = sorted(p.stem for p in (ROOT / "examples").glob("[!_]*.py") if p.stem not in known)
    listed = [f"- [{name}.py](../examples/{name}.py): {about(name)}" for name in lessons]
    more = "- [examples/torch](../examples/torch): scripts as people write them for PyTorch, which run unmodified: "
    more += "`python -m functrace.torch examples/torch/NAME.py`."
    return "\n".join(out) + "\n" + LESSONS + "\n".join([*listed, more]) + "\n"


def draw(folder: Path, names: set[str]) -> None:
    """Run those examples, and keep their pictures, made small."""
    from PIL import Image

    for name in sorted(names):
        if not (folder / f"{name}.png").exists():
            environment = {**os.environ, "FUNCTRACE_PICTURES": str(folder), "PYTHONPATH": str(ROOT)}
            subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], check=True, env=environment)
        image = Image.open(folder / f"{name}.png").convert("RGB")
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        PICTURES.mkdir(exist_ok=True)
        image.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    if "--pictures" in sys.argv:
        with tempfile.TemporaryDirectory() as made:
            draw(Path(made), drawing())
    PAGE.write_text(page(), encoding="utf-8")
