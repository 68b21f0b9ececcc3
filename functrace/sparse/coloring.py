"""Colourings: columns that share no row can be found by one product; of a symmetric matrix fewer products do.

Coleman & Moré 1983, "Estimation of sparse Jacobian matrices and graph coloring problems"; Gebremedhin, Manne & Pothen 2005, "What
color is your Jacobian?"
"""

from __future__ import annotations

from typing import Any

import numpy as np


def neighbours(starts: Any, others: Any, rows: Any) -> Any:
    """The entries of several rows of a compressed matrix, one after the other."""
    begins, counts = starts[rows], starts[rows + 1] - starts[rows]
    ends = np.cumsum(counts)
    return others[np.repeat(begins - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)]


def _least_free(taken: Any) -> int:
    """The least colour that is not among those taken; -1 stands for none."""
    used = np.zeros(len(taken) + 2, bool)
    used[np.minimum(taken, len(taken)) + 1] = True
    return int(np.argmin(used[1:]))


def columns(pattern: Any) -> Any:
    """A colour for each column, such that columns of one colour share no row; -1 for empty columns.

    Greedy, in the order of the columns and with the largest first, whichever takes fewer colours.

    >>> from scipy import sparse
    >>> columns(sparse.csr_array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])).tolist()
    [0, 1, 0, 1]
    """
    by_row, by_column = pattern.tocsr(), pattern.tocsc()
    degrees = np.diff(by_column.indptr)
    at_least = np.diff(by_row.indptr).max(initial=0)
    best: Any = None
    for order in (np.arange(len(degrees)), np.argsort(-degrees, kind="stable")):
        colors = np.full(len(degrees), -1)
        for j in order[degrees[order] > 0].tolist():
            mine = by_column.indices[by_column.indptr[j] : by_column.indptr[j + 1]]
            colors[j] = _least_free(colors[neighbours(by_row.indptr, by_row.indices, mine)])
        if best is None or colors.max(initial=-1) < best.max(initial=-1):
            best = colors
        if best.max(initial=-1) + 1 == at_least:
            break
    return best


def star(pattern: Any) -> Any:
    """A colour for each row of a symmetric pattern, such that every path of four rows has three colours; -1 for empty rows.

    Then each element can be read off one product with the sum of the columns of a colour (Gebremedhin, Manne & Pothen 2005,
    algorithm 4.1, the largest first).

    >>> import numpy as np
    >>> from scipy import sparse
    >>> arrow = sparse.csr_array(np.eye(5) + (np.arange(5) == 0) + (np.arange(5) == 0)[:, None])
    >>> star(arrow).tolist()
    [0, 1, 1, 1, 1]
    """
    graph = pattern.tocsr()
    starts, others = graph.indptr, graph.indices
    n = len(starts) - 1
    degrees = np.diff(starts)
    colors = np.full(n, -1)
    beside = np.zeros((n, 8), np.int32)  # how many neighbours of a row have a colour
    for v in np.argsort(-degrees, kind="stable").tolist():
        if not degrees[v]:
            continue
        near = others[starts[v] : starts[v + 1]]
        near = near[near != v]
        middle = np.repeat(near, degrees[near])
        far = neighbours(starts, others, near)
        keep = (far != v) & (far != middle) & (colors[far] >= 0)
        middle, far = middle[keep], far[keep]
        color = colors[middle]
        forbidden = far[(color < 0) | (beside[far, color] >= 2)]
        colors[v] = chosen = _least_free(np.concatenate([colors[near], colors[forbidden]]))
        if chosen >= beside.shape[1]:
            beside = np.concatenate([beside, np.zeros_like(beside)], axis=1)
        beside[near, chosen] += 1
    return colors
