"""Pictures: what is drawn is what was recorded, nothing overlaps, all ends at a box, and each language can be parsed."""

import functools
import itertools
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

import functrace as ft
from functrace.core.tape import ITEM
from functrace.drawing.folding import fold
from functrace.drawing.graph import Box, Graph
from functrace.drawing.layout import place
from functrace.drawing.svg import clean, columns, short, size_of
from functrace.transforms.naming import checks, names_of
from tests.helpers import here

SVG = "{http://www.w3.org/2000/svg}"


def layer(w, b, x):
    h = x @ w + b
    return np.tanh(h)


def network(params, x, y):
    for w, b in params:
        x = layer(w, b, x)
    error = x - y
    return np.mean(error**2)


def loop(x, n):
    for _ in range(n):
        x = np.sin(x) * x + 0.1
    return x.sum()


def several(x):
    q, r = np.linalg.qr(x)
    return {"q": q, "s": [r.sum(), 2.0, np.ones(3)]}, x


def wild(x):
    """Ops in no order that repeats, on values near and far."""
    random, values = np.random.default_rng(1), [x]
    for _ in range(1200):
        a, b = values[random.integers(max(0, len(values) - 50), len(values))], values[random.integers(len(values))]
        k = random.integers(6)
        values.append((np.sin, np.cos, np.exp, np.tanh)[k](a * 0.0) if k < 4 else a + b if k == 4 else a * b)
    return values[-1]


def params(n, width=4):
    return [(np.ones((width, width)), np.ones(width)) for _ in range(n)]


def _nested(x, xs):
    def step(c, v):
        d = ft.fori_loop(0, 3, lambda i, u: np.tanh(u * v), c)
        return ft.while_loop(lambda s: s < 10.0, lambda s: s * 2 + 1, d), d

    c, ys = ft.scan(step, x, xs, reverse=True)
    return c + np.sum(ft.vmap(lambda v: ft.cond(v > 0, np.sin, lambda v: v, v))(ys)) + ft.switch(1, [np.sin, np.cos], c)


X = np.ones((5, 4))
TAPES = {
    "network": (network, (params(2), X, X)),
    "gradient": (ft.grad(network), (params(1), X, X)),
    "hessian": (ft.hessian(lambda x: np.sum(x**3)), (np.ones(2),)),
    "loop": (lambda x: loop(x, 12), (np.ones(3),)),
    "large loop": (lambda x: loop(x, 50), (np.ones(3),)),
    "tuples": (several, (np.eye(3),)),
    "vmap": (ft.vmap(lambda x: x * x), (np.ones(3),)),
    "scan": (lambda w: ft.scan(lambda c, x: (np.sin(c * w), c), w, np.ones(4)), (1.0,)),
    "loops in loops": (_nested, (1.0, np.ones(3))),
    "cond": (lambda w: ft.cond(w > 0, np.sin, np.cos, w), (1.0,)),
    "no ops": (lambda x: x, (1.0,)),
    "nothing": (lambda: 3.0, ()),
    "no outputs": (lambda x: {}, (1.0,)),
    "constants": (lambda x: (np.concatenate([x, np.ones(2)]) * np.ones(2), 2.0), (np.ones(0),)),
    "not a number": (lambda x: np.where(x > 0, x, np.nan), (np.array(np.nan),)),
    "integers": (lambda i: i // 2, (np.arange(3),)),
    "complex": (lambda z: z * 1j, (1 + 2j,)),
    "a write": (lambda x: _written(x), (np.ones(3),)),
    "wild": (wild, (0.5,)),
}


def _written(x):
    y = x * 2
    y[0] = 5.0
    return y.sum()


@functools.cache
def tape_of(name):
    function, args = TAPES[name]
    return ft.trace(function)(*args)


OPTIONS = [{"fold": f, "backward": b} for f in (None, True, False) for b in (False, True)]


def parsed(svg):
    """The boxes of an SVG, (left, top, right, bottom) by number, and its arrows, (from, to, first point, last point).

    Of what is drawn inside of box 3 numbers begin with 3_.
    """
    root = ET.fromstring(svg)
    boxes = {}
    for g in root.iter(f"{SVG}g"):
        if (g.get("id") or "").startswith("box"):
            rect = g.findall(f"{SVG}rect")[-1]
            x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
            boxes[g.get("id")[3:]] = x, y, x + w, y + h
    arrows = []
    for path in root.iter(f"{SVG}path"):
        if path.get("class") == "arrow":
            points = _points(path.get("d"))
            arrows.append((path.get("data-from"), path.get("data-to"), points[0], points[-1], points))
    return root, boxes, arrows


def _points(d):
    """The end points of the pieces of a path of M, L, C and V."""
    points = []
    for letter, text in re.findall(r"([MLCV])([^MLCV]*)", d):
        numbers = [float(n) for n in text.split()]
        points.append((points[-1][0], numbers[0]) if letter == "V" else tuple(numbers[-2:]))
    return points


# What is drawn


@pytest.mark.parametrize("name", TAPES)
def test_the_forward_graph_is_the_tape(name):
    tape = tape_of(name)
    graph = ft.draw(tape, fold=False).graph
    kinds = [b.kind for b in graph.boxes]
    hidden = checks(tape)
    ops = [e for row, e in enumerate(tape.entries) if e[0] is not ITEM and row not in hidden]
    assert kinds.count("op") == len(ops) and bool(hidden) == (name in ("gradient", "hessian"))
    assert kinds.count("input") == len(tape.inputs) and kinds.count("output") == len(tape.outputs)
    arrays = {id(a) for e in ops for s, a in zip(e[2], e[3]) if s < 0 and np.shape(a) != ()}
    assert kinds.count("constant") == len(arrays)
    values = sum(s >= 0 or np.shape(a) != () for e in ops for s, a in zip(e[2], e[3]))
    assert len(graph.arrows) == values + sum(s >= 0 for s in tape.slots)
    assert all(a.source < a.target for a in graph.arrows)


def test_boxes_have_names_shapes_dtypes_parameters_and_lines():
    def f(w, x):
        h = np.tanh(x @ w)  # the line
        return np.sum(h, axis=0) / 2.0

    line = here(-3)
    graph = ft.draw(f, np.ones((4, 2), np.float32), np.ones((3, 4), np.float32)).graph
    texts = [b.text for b in graph.boxes]
    assert ["w", "float32[4,2]"] in texts and ["x", "float32[3,4]"] in texts
    assert ["tanh", "h : float32[3,2]"] in texts
    assert ["sum(axis=0)", "%4 : float32[2]"] in texts and ["divide(·, 2.0)", "%5 : float32[2]"] in texts
    hint = next(b.hint for b in graph.boxes if b.text[0] == "tanh")
    assert line in hint and "h = np.tanh(x @ w)  # the line" in hint
    sources = [graph.boxes[a.source].text[0] for a in graph.arrows if graph.boxes[a.target].text[0] == "matmul"]
    assert sources == ["x", "w"]  # in the order of the arguments


def test_the_results_of_one_op_leave_one_box():
    graph = ft.draw(several, np.eye(3)).graph
    qr = next(k for k, b in enumerate(graph.boxes) if b.text[0] == "linalg.qr")
    assert {a.label for a in graph.arrows if a.source == qr} == {"q", "r"}


def test_the_backward_graph():
    def f(x, y, unused):
        s = np.sin(x)
        return np.sum(s * x) + np.sum(y)

    graph = ft.draw(f, np.ones(3), np.ones(2), 1.0, backward=True).graph
    texts = {b.text[0]: b.text[1:] for b in graph.boxes}
    assert texts["pullback of multiply"] == ["saves s, x"]
    assert texts["pullback of sin"] == ["saves x"]
    assert texts["pullback of add"] == []
    assert texts["gradient of x"] == ["float64[3]"] and texts["gradient of unused"] == ["float64[], zero"]
    names = [b.text[0] for b in graph.boxes]
    arrows = [(names[a.source], names[a.target]) for a in graph.arrows]
    assert sorted(arrows) == sorted(
        [
            ("cotangent of output", "pullback of add"),
            ("pullback of add", "pullback of sum"),
            ("pullback of add", "pullback of sum"),
            ("pullback of sum", "pullback of multiply"),
            ("pullback of sum", "gradient of y"),
            ("pullback of multiply", "pullback of sin"),
            ("pullback of multiply", "+"),
            ("pullback of sin", "+"),
            ("+", "gradient of x"),
        ]
    )


def test_what_no_cotangent_reaches_is_not_in_the_backward_graph():
    graph = ft.draw(lambda x, i: (np.sum(x[i] * (x[i] > 0)), np.floor(x)), np.ones(3), np.array([0, 1]), backward=True).graph
    names = [b.text[0] for b in graph.boxes]
    assert not any("greater" in n or "floor" in n for n in names)
    assert names.count("gradient of x") == 1 and "gradient of i" not in names


def test_a_square_gives_its_cotangent_twice():
    graph = ft.draw(lambda x: x * x, 3.0, backward=True).graph
    assert sorted(b.text[0] for b in graph.boxes) == ["+", "cotangent of output", "gradient of x", "pullback of multiply"]
    assert len(graph.arrows) == 4


def test_cotangents_of_several_results_are_a_tuple_and_no_sum():
    graph = ft.draw(lambda x: np.linalg.qr(x), np.eye(3), backward=True).graph
    assert "+" not in [b.text[0] for b in graph.boxes]
    assert sorted(a.label for a in graph.arrows if a.label) == ["[0]", "[1]"]


def test_in_a_batch_outputs_have_the_shape_of_an_example_as_the_ops_have():
    drawn = []
    ft.vmap(lambda x: drawn.append(ft.draw(ft.trace(np.sin)(x)).graph) or x)(np.ones((2, 3)))
    assert [box.text[1] for box in drawn[0].boxes] == ["float64[3]", "%1 : float64[3]", "float64[3]"]


def test_several_results_of_an_op_are_told_in_a_program_as_on_a_tape():
    f = ft.jit(lambda x: np.linalg.qr(x))
    f(np.eye(2))
    ops = [
        [box.text[1].partition(" : ")[2] for box in ft.draw(drawn).graph.boxes if box.kind == "op"] for drawn in (f, ft.trace(f)(np.eye(2)))
    ]
    assert ops == [["float64[2,2] × float64[2,2]"]] * 2


def test_a_jitted_function_shows_its_program_and_guards():
    f = ft.jit(lambda x: x * 2.0 if x.sum() > 0 else -x)
    with pytest.raises(ft.errors.InputTypeError, match="Call it first"):
        ft.draw(f)
    f(np.ones(3))
    graph = ft.draw(f).graph
    assert [b.text[0] for b in graph.boxes if b.kind == "guard"] == ["bool: True"]
    assert "multiply(·, 2.0)" in [b.text[0] for b in graph.boxes]
    assert ft.draw(f, np.ones(3)).graph.boxes  # drawn for arguments


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", TAPES)
def test_nothing_overlaps_and_all_arrows_end_at_boxes(name, options):
    drawing = ft.draw(tape_of(name), **options)
    root, boxes, arrows = parsed(drawing.svg)
    assert sum("_" not in k for k in boxes) == len(drawing.graph.boxes)
    assert sum("_" not in arrow[0] for arrow in arrows) == len(drawing.graph.arrows)
    width, height = float(root.get("width")), float(root.get("height"))
    for x0, y0, x1, y1 in boxes.values():
        assert x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height
    for (j, (a0, b0, a1, b1)), (k, (c0, d0, c1, d1)) in itertools.combinations(boxes.items(), 2) if len(boxes) < 300 else ():
        if k.startswith(f"{j}_"):
            assert a0 < c0 and c1 < a1 and b0 < d0 and d1 < b1
        else:
            assert a1 <= c0 or c1 <= a0 or b1 <= d0 or d1 <= b0
    for source, target, first, last, _ in arrows:
        x0, _, x1, y1 = boxes[source]
        assert x0 <= first[0] <= x1 and abs(first[1] - y1) < 0.2
        x0, y0, x1, _ = boxes[target]
        assert x0 <= last[0] <= x1 and abs(last[1] - y0) < 0.2
        assert first[1] < last[1]


def test_what_a_loop_repeats_is_drawn_inside_its_box():
    def inner(box):
        return {g.title: [b.text[0] for b in g.boxes if b.kind == "op"] for g in box.inner}

    drawing = ft.draw(ft.trace(lambda x, xs: ft.scan(lambda c, v: (np.sin(c) * v, c), x, xs))(1.0, np.ones(3)))
    (scan,) = [b for b in drawing.graph.boxes if b.inner]
    assert inner(scan) == {"each of 3 steps": ["sin", "multiply"]}
    assert [b.text[0] for b in scan.inner[0].boxes if b.kind != "op"] == ["carry", "x", "carry", "y"]
    for text in (drawing.mermaid, drawing.dot):
        assert "sin, multiply" in text
    (loop,) = [b for b in ft.draw(lambda x: ft.while_loop(lambda s: s < 9.0, lambda s: s * 2.0, x), 1.0).graph.boxes if b.inner]
    assert inner(loop) == {"as long as": ["less(·, 9.0)"], "each step": ["multiply(·, 2.0)"]}
    f = ft.jit(lambda x: ft.cond(x > 0, np.sin, np.cos, x))
    f(1.0)
    (choice,) = [b for b in ft.draw(f).graph.boxes if b.inner]
    assert choice.text[0] == "cond sin, cos" and inner(choice) == {"if false: cos": ["cos"], "if true: sin": ["sin"]}
    nested = ft.draw(tape_of("loops in loops"), fold=False)
    (outer,) = [b for b in nested.graph.boxes if b.text[0].startswith("scan")]
    assert outer.inner[0].title == "each of 3 steps, the last first"
    assert [g.title for b in outer.inner[0].boxes for g in b.inner] == ["each of 3 steps", "as long as", "each step"]
    assert len(re.findall('id="box', nested.svg)) == len(set(re.findall('id="(box[^"]*)"', nested.svg)))


@pytest.mark.parametrize("name", ["network", "gradient", "hessian", "tuples"])
def test_arrows_do_not_run_through_boxes(name):
    """Each piece of an arrow lies between two layers, or passes a layer vertically, beside its boxes."""
    _, boxes, arrows = parsed(ft.draw(tape_of(name), fold=False).svg)
    for source, target, _, _, points in arrows:
        for (xa, ya), (xb, yb) in itertools.pairwise(points):
            for k, (x0, y0, x1, y1) in boxes.items():
                if k not in (source, target) and abs(xa - xb) < 1e-6:
                    assert not (x0 < xa < x1 and ya < y1 - 0.5 and yb > y0 + 0.5), (k, source, target)


@pytest.mark.parametrize("name", TAPES)
def test_text_fits_its_box(name):
    drawing = ft.draw(tape_of(name))
    for box in drawing.graph.boxes:
        width, height = size_of(box)
        assert all(columns(short(t)) * 13 * (0.602 if k == 0 else 0.533) < width for k, t in enumerate(box.text) if box.kind != "sum")
        assert len(box.text) * 17 < height + 5 or box.kind == "sum"


# Awkward names


AWKWARD = ["<&\"'>", "a\\n{b}|c]", "–é 日本語", "\x00\x1b", "]]>", "-->", "%%{init}%%", "#quot;", "`x`", "*b*", "end", "a;b"]


@pytest.mark.parametrize("name", AWKWARD)
def test_names_are_escaped(name):
    def f(x):
        return np.sin(x["k"])

    f.__name__ = name
    tape = ft.trace(f)({"k": 1.0})
    tape.names = [name]
    drawing = ft.draw(tape)
    root = ET.fromstring(drawing.svg)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert clean(name) in texts and root.get("aria-label") == clean(name)
    check_dot(drawing.dot, drawing.graph)
    check_mermaid(drawing.mermaid, drawing.graph)
    page = tape._repr_html_()
    assert not re.search(r"<(?!/?(div|b|table|tr|th|td|svg|g|path|rect|text|title)\b)", page)
    ET.fromstring(page)


def test_long_lines_are_cut_and_told_in_full_in_the_hint():
    tape = ft.trace(lambda x: x)(1.0)
    tape.names = ["x" * 500]
    drawing = ft.draw(tape)
    assert "x" * 500 in drawing.svg and ">" + "x" * 500 + "<" not in drawing.svg
    assert max(len(short(t)) for b in drawing.graph.boxes for t in b.text) <= 44


# Folding


def test_repeats_become_one_box():
    drawing = ft.draw(lambda x: loop(x, 100), np.ones(3))
    folded = [b for b in drawing.graph.boxes if b.kind == "fold"]
    assert len(folded) == 1 and folded[0].text[:4] == ["× 100", "sin", "multiply", "add(·, 0.1)"] and folded[0].count == 300
    assert len(drawing.graph.boxes) == 4


def test_calls_become_boxes_and_repeated_calls_one():
    args = (params(30), X, X)
    graph = ft.draw(network, *args).graph
    box = next(b for b in graph.boxes if b.kind == "fold")
    assert box.text == ["layer() × 30", "matmul", "add", "tanh", "→ x_30 : float64[5,4]"]
    inputs = [b.text for b in graph.boxes if b.kind == "input"]
    assert inputs == [["60 inputs", "params[0][0], params[0][1], params[1][0] …"], ["x", "float64[5,4]"], ["y", "float64[5,4]"]]
    two = ft.draw(network, params(2), X, X, fold=True).graph
    assert [b.text[0] for b in two.boxes if b.kind == "fold"] == ["layer() × 2"]


@pytest.mark.parametrize("times", [2, 3])
def test_what_is_repeated_is_told_to_the_last_time(times):
    def f(x):
        for _ in range(times):
            x = np.sin(x)
            x = np.exp(-x)
            x = np.tanh(x)
        return x

    graph = ft.draw(f, 1.0, fold=True).graph
    assert [b.text[:5] for b in graph.boxes if b.kind == "fold"] == [[f"× {times}", "sin", "negative", "exp", "tanh"]]


@pytest.mark.parametrize(("long", "short", "folded"), [(10, 5, ["× 10", "× 5"]), (12, 3, ["× 12"])])
def test_only_short_repeats_are_opened_again_where_there_is_room(long, short, folded):
    def f(x):
        for _ in range(long):
            x = np.sin(x)
            x = np.exp(x)
            x = np.tanh(x)
        for _ in range(short):
            x = np.cos(x)
            x = np.sqrt(x)
        return x

    graph = ft.draw(f, 1.0).graph
    assert [b.text[0] for b in graph.boxes if b.kind == "fold"] == folded
    assert sum(b.count for b in graph.boxes if b.like is not None) == 3 * long + 2 * short


def test_small_graphs_are_not_folded():
    assert all(b.kind != "fold" for b in ft.draw(network, params(3), X, X).graph.boxes)


def test_fold_keeps_every_op_and_every_connection():
    for name in ("network", "loop", "large loop", "wild", "gradient", "tuples"):
        for backward in (False, True):
            whole = ft.draw(tape_of(name), fold=False, backward=backward).graph
            count = sum(b.count for b in whole.boxes if b.like is not None)
            for mode in (None, True):
                graph = fold(whole, mode)
                assert sum(b.count for b in graph.boxes if b.like is not None) == count
                assert all(a.source < a.target for a in graph.arrows)
                assert len(graph.boxes) <= len(whole.boxes)
                if mode is None:
                    assert len(graph.boxes) <= 60 + 24 + 4


def test_calls_that_return_nothing_new_and_recursion():
    def rec(x, n):
        return np.sin(rec(x, n - 1)) if n else x

    tape = ft.trace(lambda x: rec(x, 150))(1.0)
    graph = ft.draw(tape, fold=True).graph
    assert sum(b.count for b in graph.boxes if b.like is not None) == 150 and len(graph.boxes) < 30


def test_layers_of_growing_shapes_are_folded_without_their_shapes():
    def f(x):
        for n in range(1, 60):
            x = np.tanh(np.concatenate([x, x[:1]]) * float(n))
        return x.sum()

    graph = ft.draw(f, np.ones(2)).graph
    assert len(graph.boxes) < 40 and sum(b.count for b in graph.boxes if b.like is not None) == 59 * 4 + 1


def test_many_inputs_and_outputs_are_bundled():
    graph = ft.draw(lambda xs: [2 * x for x in xs], list(range(100))).graph
    kinds = [b.kind for b in graph.boxes]
    assert kinds.count("input") == 1 and kinds.count("output") == 1
    assert any(b.text[0] == "100 inputs" for b in graph.boxes)


@pytest.mark.parametrize("n", [333, 3333])
def test_thousands_of_ops_are_drawn_without_recursion(n):
    tape = ft.trace(lambda x: loop(x, n))(np.ones(3))
    limit = sys.getrecursionlimit()
    depth = len(__import__("inspect").stack(0))
    sys.setrecursionlimit(depth + 120)
    try:
        for options in OPTIONS if n < 1000 else OPTIONS[:4]:
            ET.fromstring(ft.draw(tape, **options).svg)
    finally:
        sys.setrecursionlimit(limit)


# Layout


def test_layout_puts_arrows_downwards_and_keeps_the_order_of_arguments():
    sizes = [(60.0, 30.0)] * 6
    arrows = [(0, 2), (1, 2), (0, 3), (2, 4), (3, 4), (0, 5), (4, 5)]
    placed = place(sizes, arrows, [True] * 6)
    assert all(placed.centres[s][1] < placed.centres[t][1] for s, t in arrows)
    ends = [route[-1][0] for (_, t), route in zip(arrows, placed.routes) if t == 2]
    assert ends == sorted(ends) and len(set(ends)) == 2
    assert len(placed.routes[5]) > 2  # a long arrow bends round what lies between


def test_a_deep_network_goes_straight_down():
    """Each layer has its weights on one side: what it is drawn to by them adds up to a diagonal."""
    deep, shallow = (ft.draw(network, params(n), X, X, fold=False).svg for n in (6, 2))
    width = [float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1]) for svg in (deep, shallow)]
    assert width[0] < 1.5 * width[1]


def test_layout_untangles():
    sizes = [(40.0, 20.0)] * 8
    arrows = [(0, 7), (1, 6), (2, 5), (3, 4)]
    placed = place(sizes, arrows, [False] * 8)
    x = [c[0] for c in placed.centres]
    crossings = sum((x[a] - x[c]) * (x[b] - x[d]) < 0 for (a, b), (c, d) in itertools.combinations(arrows, 2))
    assert crossings == 0


def test_layout_of_nothing_and_of_one():
    assert place([], [], []).centres == []
    assert place([(50.0, 20.0)], [], [True]).centres == [(25.0, 10.0)]


# Languages


DOT_STRING = r'"(?:[^"\\\n]|\\.)*"'
DOT_ATTRIBUTES = rf"\[(?:\w+={DOT_STRING}(?:, )?)+\]"


def check_dot(dot, graph):
    head, *lines, last = dot.rstrip("\n").split("\n")
    assert re.fullmatch(rf"digraph {DOT_STRING} {{", head) and last == "}"
    nodes, edges = set(), 0
    for line in lines:
        line = line.strip()
        if node := re.fullmatch(rf"(n\d+) {DOT_ATTRIBUTES};", line):
            nodes.add(node[1])
        elif edge := re.fullmatch(rf"(n\d+) -> (n\d+) {DOT_ATTRIBUTES};", line):
            assert {edge[1], edge[2]} <= nodes
            edges += 1
        else:
            assert re.fullmatch(rf"(graph|node|edge) {DOT_ATTRIBUTES};", line), line
    assert len(nodes) == len(graph.boxes) and edges == len(graph.arrows)


MERMAID_TEXT = r'"(?:[^"#&<>`{}\[\]()|\\;%*~$@:\n]|#\d+;|<br/>)*"'


def check_mermaid(text, graph):
    head, *lines = text.rstrip("\n").split("\n")
    assert head == "flowchart TD"
    nodes, classes, used, edges = set(), set(), set(), 0
    for line in lines:
        line = line.strip()
        if node := re.fullmatch(rf"(n\d+)(?:\[{MERMAID_TEXT}\]|\(\({MERMAID_TEXT}\)\)|\(\[{MERMAID_TEXT}\]\)):::(\w+)", line):
            nodes.add(node[1])
            used.add(node[2])
        elif edge := re.fullmatch(rf"(n\d+) (?:-->|-\.->)(?:\|{MERMAID_TEXT}\|)? (n\d+)", line):
            assert {edge[1], edge[2]} <= nodes
            edges += 1
        else:
            style = re.fullmatch(r"classDef (\w+) fill:#[0-9a-f]{6},stroke:#[0-9a-f]{6},color:#[0-9a-f]{6}", line)
            assert style, line
            classes.add(style[1])
    assert len(nodes) == len(graph.boxes) and edges == len(graph.arrows) and classes == used


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", TAPES)
def test_dot_and_mermaid_follow_their_grammars(name, options):
    drawing = ft.draw(tape_of(name), **options)
    check_dot(drawing.dot, drawing.graph)
    check_mermaid(drawing.mermaid, drawing.graph)


def test_graphviz_reads_the_dot(tmp_path):
    import shutil

    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    tape = tape_of("network")
    tape.names = [*AWKWARD, *tape.names][: len(tape.inputs)]
    for backward in (False, True):
        drawing = ft.draw(tape, backward=backward)
        done = subprocess.run(["dot", "-Tplain"], input=drawing.dot, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stderr
        words = [line.split()[0] for line in done.stdout.splitlines()]
        assert words.count("node") == len(drawing.graph.boxes) and words.count("edge") == len(drawing.graph.arrows)


# The drawing


def test_formats_and_files(tmp_path):
    tape = tape_of("network")
    drawing = tape.draw()
    for ending, text in {"svg": drawing.svg, "dot": drawing.dot, "gv": drawing.dot, "mmd": drawing.mermaid}.items():
        drawing.save(tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").read_text(encoding="utf-8") == text
    assert drawing._repr_svg_() == drawing.svg and drawing.svg.removeprefix("<svg") in drawing._repr_html_()
    assert "auto" not in drawing.svg.split(">")[0]  # CairoSVG took it for 0, and drew nothing
    assert str(ft.draw(tape, format="mermaid")) == drawing.mermaid and str(ft.draw(tape, format="svg")) == drawing.svg
    assert str(drawing) == repr(drawing) == f"<drawing of network: {len(drawing.graph.boxes)} boxes, {len(drawing.graph.arrows)} arrows>"
    with pytest.raises(ValueError, match="'.png'.*\n.*Graphviz"):
        drawing.save(tmp_path / "x.png")


def test_what_can_not_be_drawn():
    with pytest.raises(ft.errors.InputTypeError, match="of type int can't be drawn"):
        ft.draw(3)
    with pytest.raises(ft.errors.InputTypeError, match="list"):
        ft.draw([])
    with pytest.raises(TypeError, match="arguments are for a function"):
        ft.draw(tape_of("network"), 1.0)
    with pytest.raises(ValueError, match="format must be one of 'svg'"):
        ft.draw(tape_of("network"), format="png")


def test_drawing_a_tape_imports_no_tensors():
    code = (
        "import sys, numpy as np, functrace as ft; t = ft.trace(lambda x: np.sin(x))(1.0); ft.draw(t).svg; t._repr_html_();"
        "print(any(m.startswith(('functrace.torch', 'torch', 'scipy')) for m in sys.modules), callable(ft.draw), ft.draw.__module__)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["False", "True", "functrace.drawing"], done.stderr


def test_the_legend_names_the_kinds_that_are_there():
    root = ET.fromstring(ft.draw(lambda x: loop(x, 100), np.ones(3)).svg)
    legend = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "legend")
    assert [t.text for t in legend.iter(f"{SVG}text")] == ["input", "operation", "several operations, folded", "output"]


# The notebook's view


def test_the_table_has_a_row_for_each_input_and_entry():
    def f(x, p):
        y = np.sin(x) * p["w"]
        return y.sum(), 2.0

    tape = ft.trace(f)(np.ones(3), {"w": np.float32(2.0)})
    root = ET.fromstring(tape._repr_html_())
    rows = [[c.text or "" for c in tr] for tr in root.iter("tr")]
    assert rows[0] == ["name", "operation", "dtype", "shape", "line"]
    assert rows[1] == ["x", "input", "float64", "(3,)", ""] and rows[2] == ["p['w']", "input", "float32", "()", ""]
    assert rows[3][:4] == ["%2", "sin(x)", "float64", "(3,)"] and rows[3][4].startswith("test_draw.py:") and rows[3][4].endswith("in f")
    assert rows[4] == ["y", "multiply(%2, p['w'])", "float64", "(3,)", '"']
    assert rows[-1] == ["return", "%4, 2.0"] and len(rows) == 7
    assert root.find(f".//{SVG}svg") is not None


@pytest.mark.parametrize("name", TAPES)
def test_every_tape_has_a_page(name):
    ET.fromstring(tape_of(name)._repr_html_())


def test_a_large_table_is_cut():
    tape = ft.trace(lambda x: loop(x, 1000))(np.ones(3))
    rows = list(ET.fromstring(tape._repr_html_()).iter("tr"))
    assert len(rows) < 220 and any("… 2801 more" in (tr[0].text or "") for tr in rows)


# Names and lines


def test_names_are_those_that_the_program_stores():
    class Model:
        pass

    def f(x, m, d):
        a = b = np.sin(x)
        a = a + 1.0
        m.h = np.cos(b)
        d["k"] = m.h * 2.0
        if (w := d["k"] * 3.0).sum() > 0:
            q, r = np.linalg.qr(np.outer(w, w))
        u = np.mean(a)
        g = layer(np.eye(3), np.ones(3), x)
        return [np.exp(a), q, r, u, g]

    text = str(ft.trace(lambda x: f(x, Model(), {}))(np.ones(3)))
    rows = dict(re.findall(r"^(\S+) : .*? = (\S+)\(", text, re.M))
    assert rows["a"] == "sin" and rows["a_1"] == "add" and rows["m.h"] == "cos" and rows["d['k']"] == "multiply" and rows["w"] == "multiply"
    assert rows["q"] == rows["r"] == "item" and rows["u"] == "divide" and rows["g"] == "tanh" and rows["h"] == "add"
    assert "exp" in [rows[k] for k in rows if k.startswith("%")]


def test_passes_through_a_loop_are_told_apart():
    def f(x):
        for _ in range(3):
            x = np.mean(x) + np.sin(x)
        for _ in range(2):
            y = np.mean(x)
        return y

    text = str(ft.trace(f)(np.ones(3)))
    assert [f"x_{k} " in text for k in (1, 2, 3, 4)] == [True, True, True, False]
    assert text.count("y : float64[] = divide") == 1 and "y_1 : float64[] = divide" in text and "y_2" not in text


def test_a_call_for_a_tape_does_not_name_what_is_in_it():
    kept = ft.trace(ft.grad(lambda x: x * x))(2.0)
    assert not re.search(r"^kept", str(kept), re.M)


def test_what_a_replay_does_has_the_line_of_the_op_it_belongs_to():
    def f(x):
        y = np.sin(x)
        return np.sum(y * y)

    line = here(-3)
    text = str(ft.trace(ft.grad(f))(np.ones(3)))
    assert re.search(rf"= cos\(x\)  # {re.escape(os.path.basename(line))}, in f, reverse replay", text)
    graph = ft.draw(ft.grad(f), np.ones(3), fold=True).graph
    assert {"f()", "reverse replay"} <= {b.text[0] for b in graph.boxes}


def test_the_source_has_names_and_lines_and_gives_the_same():
    def f(p, x):
        if x.sum() > 0:
            list = p["w"] * x
        np = list + 1.0
        return np.sum() + p["w"]

    tape = ft.trace(f)({"w": 2.0}, np.ones(3))
    source = tape.to_python()
    assert "def f(p_w, x):" in source
    assert "    list_ = np.multiply(p_w, x)\n" in source and "    np_ = np.add(list_, 1.0)\n" in source
    assert re.search(r'    # test_draw.py:\d+, in f: list = p\["w"\] \* x\n', source)
    assert "    # test_draw.py" in source.split("assert bool")[0]
    space = {}
    exec(source, space)
    assert space["f"](2.0, np.ones(3)) == tape.outputs[0]


def test_nothing_is_held_when_the_trace_is_over():
    import gc
    import weakref

    class Held:
        pass

    def f(x):
        held = Held()
        refs.append(weakref.ref(held))
        return np.sin(x)

    refs = []
    gc.collect()
    gc.disable()
    try:
        tape = ft.trace(f)(1.0)
        assert refs[0]() is None
    finally:
        gc.enable()
    assert tape.frames.base is None


def test_values_have_the_users_names_and_lambdas_are_calls_but_comprehensions_are_not():
    def f(x):
        parts = [e * 2 for e in x]
        triple = lambda t: t * 3
        box, table = SimpleNamespace(inner=SimpleNamespace()), {}
        box.inner.y = triple(parts[0])
        table["k"] = box.inner.y + 1
        q, r = np.linalg.qr(np.reshape(table["k"], (1, 1)))
        last = q @ r
        return last

    tape = ft.trace(f)(np.ones(2))
    names = [name for name in names_of(tape).values() if name[0] not in "%e"]  # e, from Python 3.12 on, has no frame
    assert names == ["x", "box.inner.y", "table['k']", "q", "r", "last"]
    assert [(call.name, call.parent) for call in tape.frames.calls] == [("f", -1), ("<lambda>", 0)]
    assert [tape.frames.call[k] for k in (0, 4, -1)] == [0, 1, 0]


def test_what_numpys_own_function_did_has_the_line_of_the_trace():
    tape = ft.trace(ft.grad(np.tanh))(1.0)
    lines = [tape.frames.text(k) for k in range(len(tape.frames))]
    here = f"in {sys._getframe().f_code.co_name}"
    assert lines[0].endswith(here) and all(line.endswith(f"{here}, reverse replay") for line in lines[1:4])
    names = names_of(ft.trace(np.tanh)(1.0))
    assert ft.trace(np.tanh)(1.0).frames.call == [-1] and names[1] == "%1" and names[0] in ("x", "arg0")  # older NumPy names no argument


# Tensors


def histories(torch):
    """Tensors by name, each of whose graph is told in `EXPECTED`."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    a, b = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([6.0, 4.0], requires_grad=True)
    yield "tutorial", 3 * a**3 - b**2
    yield "a leaf used twice", (x * x + x).sum()
    y = x * 2
    part = y[1:3]
    part.mul_(3.0)
    part.add_(x[0])
    yield "writes through a view", y.sum()
    first, second = (x * 2).split(2)
    yield "several outputs", (first * second).sum()
    h = x * 3
    h.register_hook(lambda g: g)
    yield "hook", h.sum()
    yield "stack", torch.stack(list(torch.unbind(x.reshape(2, 2)))).sum()
    yield "linear", torch.relu(torch.nn.functional.linear(x.reshape(2, 2), torch.ones(3, 2, requires_grad=True))).mean()


EXPECTED = {
    "tutorial": ["AccumulateGrad", "PowBackward0", "MulBackward0", "AccumulateGrad", "PowBackward0", "SubBackward0"],
    "a leaf used twice": ["AccumulateGrad", "MulBackward0", "AddBackward0", "SumBackward0"],
    "writes through a view": ["AccumulateGrad", "MulBackward0", "CopySlices", "SelectBackward0", "CopySlices", "SumBackward0"],
    "several outputs": ["AccumulateGrad", "MulBackward0", "SplitBackward0", "MulBackward0", "SumBackward0"],
    "hook": ["AccumulateGrad", "MulBackward0", "SumBackward0"],
    "stack": ["AccumulateGrad", "ViewBackward0", "UnbindBackward0", "StackBackward0", "SumBackward0"],
    "linear": ["AccumulateGrad", "ViewBackward0", "AccumulateGrad", "TBackward0", "MmBackward0", "ReluBackward0", "MeanBackward0"],
}


def nodes(drawing):
    graph = drawing.graph
    names = [b.text[0] for b in graph.boxes]
    inner = {k for k, b in enumerate(graph.boxes) if b.kind in ("back", "accumulate")}
    arrows = sorted((names[a.source], names[a.target]) for a in graph.arrows if a.source in inner and a.target in inner)
    return sorted(names[k] for k in inner), arrows


def test_nodes_have_pytorchs_names():
    import functrace.torch as torch

    for name, t in histories(torch):
        assert nodes(ft.draw(t))[0] == sorted(EXPECTED[name]), name


def walked(t):
    """Names and arrows of a history, by `next_functions` alone."""
    seen, todo, names, arrows = {}, [t.grad_fn], [], []
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        names.append(node.name().rpartition("::")[2])
        for other, _ in node.next_functions:
            if other is not None:
                arrows.append((other.name().rpartition("::")[2], names[-1]))
                todo.append(other)
    return sorted(names), sorted(arrows)


def test_the_graph_is_the_one_that_pytorch_walks():
    real = pytest.importorskip("torch")
    import functrace.torch as torch

    for (name, ours), (_, theirs) in zip(histories(torch), histories(real)):
        assert nodes(ft.draw(ours)) == walked(theirs) == nodes(ft.draw(theirs)), name
        assert ft.draw(ours).graph.boxes[-1].text[1] == ft.draw(theirs).graph.boxes[-1].text[1]


def test_leaves_saved_values_sums_and_hooks():
    import functrace.torch as torch

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * x
    h.register_hook(lambda g: g)
    h.retain_grad()
    total = (h + x).sum()
    drawing = ft.draw(total)
    texts = {b.text[0]: b.text[1:] for b in drawing.graph.boxes}
    assert texts["x"] == ["float32[2]"] and texts["total"] == ["float32[]"]  # named as in this frame
    assert texts["AccumulateGrad"] == ["adds 3 gradients"]
    assert texts["MulBackward0"] == ["saves self float32[2]", "  other float32[2]", "1 hook", "keeps its gradient"]
    total.backward()
    assert {b.text[0]: b.text[1:] for b in ft.draw(total).graph.boxes}["MulBackward0"][0] == "saves nothing: freed"
    model = torch.nn.Linear(2, 1)
    names = [b.text[0] for b in ft.draw(model(x).sum()).graph.boxes if b.kind == "input"]
    assert {"model.weight", "model.bias", "x"} == set(names)


def test_drawing_runs_no_hooks_of_saved_tensors():
    import functrace.torch as torch

    called = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: called.append(1) or t):
        y = torch.ones(2, requires_grad=True).exp()
    assert "saves what hooks packed" in [t for b in ft.draw(y).graph.boxes for t in b.text] and not called
    assert y.grad_fn.next_functions


def test_arrows_of_gradients_run_against_those_of_the_history():
    import functrace.torch as torch

    t = dict(histories(torch))["several outputs"]
    forward, back = ft.draw(t).graph, ft.draw(t, backward=True).graph
    assert [b.text for b in back.boxes] == [b.text for b in reversed(forward.boxes)]
    n = len(forward.boxes) - 1
    assert sorted((n - a.source, n - a.target) for a in back.arrows) == sorted((a.target, a.source) for a in forward.arrows)


def test_tensors_without_history_leaves_and_several():
    import functrace.torch as torch

    with pytest.raises(ValueError, match="does not require grad.*\n.*requires_grad=True"):
        ft.draw(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    assert [b.text[0] for b in ft.draw(x).graph.boxes] == ["x"]
    graph = ft.draw([x.sum(), x.exp()]).graph
    assert sum(b.kind == "output" for b in graph.boxes) == 2 and sum(b.kind == "accumulate" for b in graph.boxes) == 1


def test_a_long_history_is_folded():
    import functrace.torch as torch

    x = y = torch.ones(2, requires_grad=True)
    for _ in range(2000):
        y = y * x + 1
    graph = ft.draw(y).graph
    assert [b.text for b in graph.boxes if b.kind == "fold"] == [["× 2000", "MulBackward0", "AddBackward0"]]


@pytest.mark.parametrize("backward", [False, True])
def test_a_history_with_many_leaves_is_folded_in_an_order_in_which_arrows_run_forwards(backward):
    import functrace.torch as torch

    y = torch.ones(2)
    for _ in range(40):
        y = torch.sin(y * torch.ones(2, requires_grad=True))
    drawing = ft.draw(y, backward=backward)
    assert any(b.kind == "fold" for b in drawing.graph.boxes) and all(a.source < a.target for a in drawing.graph.arrows)
    assert "AccumulateGrad" in drawing.svg


def test_graphs_by_hand():
    graph = Graph("by hand")
    graph.join(graph.add(Box("input", ["a"])), graph.add(Box("output", ["b"])))
    assert repr(graph) == "<graph of by hand: 2 boxes, 1 arrows>"
