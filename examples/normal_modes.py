"""Vibrations of molecules: normal modes are eigenvectors of the Hessian of an energy.

One writes down an energy as a function of positions; `hessian` gives the matrix that textbooks derive by hand (Wilson, Decius and Cross,
"Molecular Vibrations", 1955), and its eigenvalues, weighted by masses, the frequencies. Derivatives nest: the springs of water are found
from its measured frequencies by Newton's method, through `eigvalsh` of `hessian`, and then predict the spectrum of heavy water. A
football of 60 carbon atoms shows that the symmetry of a molecule is in its energy. Needs the extra: pip install 'functrace[examples]'.
"""

import itertools

import numpy as np
from _picture import save
from matplotlib import pyplot as plt
from scipy.optimize import root

import functrace as ft

WAVENUMBER = 1302.79  # 1/cm, of a mass of 1 u on a spring of 1 aJ/Å^2: sqrt(100 N/m / u) / (2 pi c)


def weighted_hessian(energy, positions, masses):
    """Second derivatives in coordinates in which all masses are 1; positions (atoms, 3), masses (atoms,)."""
    root_mass = np.repeat(np.sqrt(masses), 3)
    flat = lambda x: energy(x.reshape(-1, 3))
    return ft.hessian(flat)(positions.ravel()) / (root_mass[:, None] * root_mass)


def bend(a, centre, b):
    """The angle at the centre, in radians."""
    p, q = a - centre, b - centre
    return np.arccos(np.sum(p * q, axis=-1) / (np.linalg.norm(p, axis=-1) * np.linalg.norm(q, axis=-1)))


# Water, in Å and u. Harmonic frequencies in 1/cm from spectra: Benedict, Gailar and Plyler, J. Chem. Phys. 24, 1139 (1956).
LENGTH, ANGLE = 0.9572, np.radians(104.52)
HALF = LENGTH * np.array([np.sin(ANGLE / 2), np.cos(ANGLE / 2)])
WATER = np.array([[0.0, 0.0, 0.0], [-HALF[0], -HALF[1], 0.0], [HALF[0], -HALF[1], 0.0]])
LIGHT, HEAVY = np.array([15.9949, 1.00783, 1.00783]), np.array([15.9949, 2.01410, 2.01410])
MEASURED = {"H2O": np.array([1648.47, 3832.17, 3942.53]), "D2O": np.array([1206.39, 2763.80, 2888.78])}


def water_energy(x, springs):
    """Two bonds, how they feel each other, and the angle between them; in aJ."""
    stretch, coupling, angle = springs
    oxygen, first, second = x
    d, e = np.linalg.norm(first - oxygen) - LENGTH, np.linalg.norm(second - oxygen) - LENGTH
    return stretch * (d**2 + e**2) / 2 + coupling * d * e + angle * (bend(first, oxygen, second) - ANGLE) ** 2 / 2


def water_frequencies(springs, masses):
    """The three vibrations; six eigenvalues before them are zero, three shifts and three rotations."""
    eigenvalues = np.linalg.eigvalsh(weighted_hessian(lambda x: water_energy(x, springs), WATER, masses))
    return WAVENUMBER * np.sqrt(eigenvalues[6:])


miss = lambda springs: water_frequencies(springs, LIGHT) / MEASURED["H2O"] - 1
fit = root(miss, [8.0, 0.0, 0.5], jac=ft.jacobian(miss), tol=1e-12)
print("springs of water: {:.3f} aJ/Å^2, coupling {:.3f} aJ/Å^2, angle {:.3f} aJ/rad^2".format(*fit.x), f"after {fit.nfev} evaluations")
predicted = water_frequencies(fit.x, HEAVY)
print("D2O, predicted from H2O:", predicted.round(1), "1/cm")
print("D2O, measured:          ", MEASURED["D2O"], "1/cm")
assert np.abs(miss(fit.x)).max() < 1e-10
assert np.abs(predicted / MEASURED["D2O"] - 1).max() < 0.005
eigenvalues, modes = np.linalg.eigh(weighted_hessian(lambda x: water_energy(x, fit.x), WATER, LIGHT))
print(f"the six that are no vibration: less than {np.abs(eigenvalues[:6]).max():.0e} aJ/Å^2/u")

# Buckminsterfullerene, C60: a truncated icosahedron with bonds as springs, and springs across each angle.
golden = (1 + np.sqrt(5)) / 2
corners = [(0, 1, 3 * golden), (1, 2 + golden, 2 * golden), (golden, 2, 2 * golden + 1)]
signs = list(itertools.product([-1, 1], repeat=3))
turns = [np.roll(np.multiply(c, s), k) for c in corners for s in signs for k in range(3)]
BALL = 0.71 * np.unique(np.round(turns, 12) + 0.0, axis=0)  # bonds of 1.42 Å
distance = np.linalg.norm(BALL[:, None] - BALL, axis=-1)
bonds = np.argwhere(np.triu(distance < 1.5, 1))
angles = np.argwhere(np.triu((distance > 1.5) & (distance < 2.6), 1))


def ball_energy(x):
    def springs(pairs):
        return np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1) - np.linalg.norm(BALL[pairs[:, 0]] - BALL[pairs[:, 1]], axis=1)

    return 5.0 * np.sum(springs(bonds) ** 2) / 2 + 0.6 * np.sum(springs(angles) ** 2) / 2


spectrum = WAVENUMBER * np.sqrt(np.linalg.eigvalsh(weighted_hessian(ball_energy, BALL, np.full(60, 12.0)))[6:])
lines = np.split(spectrum, np.flatnonzero(np.diff(spectrum) > 1e-3) + 1)
found = {n: sum(len(line) == n for line in lines) for n in (1, 3, 4, 5)}
print(f"\nC60: {len(bonds)} bonds, {len(angles)} angles, {len(spectrum)} vibrations of {len(lines)} frequencies, by degeneracy: {found}")
assert found == {1: 3, 3: 16, 4: 12, 5: 15}  # the 46 lines that group theory predicts for the icosahedron's symmetry
print("Group theory predicts 46 frequencies: 3, 16, 12 and 15 that are 1, 3, 4 and 5-fold. The energy knows only lengths.")

figure = plt.figure(figsize=(10, 5.4))
panels = figure.subplot_mosaic([["0", "1", "2"], ["ball", "ball", "ball"]], height_ratios=[1, 1.1])
for k, title in enumerate(["bending", "symmetric stretching", "antisymmetric stretching"]):
    ax, moved = panels[str(k)], (modes[:, 6 + k] / np.repeat(np.sqrt(LIGHT), 3)).reshape(3, 3)
    ax.plot(WATER[[1, 0, 2], 0], WATER[[1, 0, 2], 1], color="0.6", lw=5, zorder=1)
    ax.scatter(WATER[:, 0], WATER[:, 1], s=[700, 300, 300], c=["C1", "0.85", "0.85"], edgecolors="0.3", zorder=2)
    ax.quiver(*WATER.T[:2], *moved.T[:2], color="C0", angles="xy", scale_units="xy", scale=1.6, width=0.014, zorder=3)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.1, 0.5), aspect="equal", xticks=[], yticks=[], title=f"Water, {title}")
    ax.spines[:].set_visible(False)
    ax.set_xlabel(f"H$_2$O fitted to {MEASURED['H2O'][k]:.0f} cm$^{{-1}}$\nD$_2$O {predicted[k]:.0f}, measured {MEASURED['D2O'][k]:.0f}")
for n, colour in zip((1, 3, 4, 5), ("C0", "C1", "C2", "C4")):
    places = [line.mean() for line in lines if len(line) == n]
    panels["ball"].vlines(places, 0, n, color=colour, label=f"{n}-fold: {len(places)}")
panels["ball"].set(xlabel="wavenumber, cm$^{-1}$", ylabel="degeneracy", title="C$_{60}$ of springs: 174 vibrations, 46 frequencies")
panels["ball"].legend(ncols=4, loc="upper left")
panels["ball"].set(ylim=(0, 7), yticks=[1, 3, 4, 5])
save(figure, "normal_modes")
