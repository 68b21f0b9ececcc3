"""The gallery's pictures: one look for all, drawn without a display, and one line that says where the file is.

`save(figure, "name")` writes `pictures/name.png` under the current directory; the environment variable FUNCTRACE_PICTURES names
another folder. Needs the extra: pip install 'functrace[examples]'.
"""

import os
from pathlib import Path

import _extra  # noqa: F401  # which tells what to install, before what may be missing
import matplotlib as mpl

mpl.use("Agg")  # draws to memory: no window, no display

from cycler import cycler
from matplotlib.figure import Figure

# Okabe and Ito's colours can be told apart by the colour-blind; the yellow one is left out, it fades on white.
BLUE, ORANGE, GREEN, PINK, SKY, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#6B7280"

mpl.rcParams.update(
    {
        "figure.figsize": (8.0, 4.5),
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "white",
        "font.size": 10.5,
        "axes.titlesize": 11.5,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#444444",
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": cycler(color=[BLUE, RED, GREEN, ORANGE, PINK, SKY, GREY]),
        "grid.color": "#E5E7EB",
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "image.cmap": "viridis",
    }
)


def save(figure: Figure, name: str) -> Path:
    """Write the figure as NAME.png, print one line with its path, and return the path."""
    folder = Path(os.environ.get("FUNCTRACE_PICTURES") or "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path)
    print(f"picture: {path}")
    return path
