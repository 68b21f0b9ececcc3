"""Every example runs, claims what it should, draws its picture; the lessons print what they print under PyTorch."""

import contextlib
import importlib.util
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("_"))
LESSONS = [path for path in EXAMPLES if "import functrace.torch as torch" in path.read_text(encoding="utf-8")]
OPTIONAL = ("scipy", "sklearn", "tqdm", "matplotlib")

# What an example prints is what it claims: the number that follows these words, where they last stand, lies between these bounds.
CLAIMS = {
    "brachistochrone": [("friction 0.0", 0.80556, 0.8057), ("the cycloid takes", 0.8733, 0.8734)],
    "bundle_adjustment": [("error in the pictures", 25, 35), ("30.09 pixels at first,", 0.43, 0.46), ("off by 0.0993 at first,", 0, 0.002)],
    "cart_pole": [("100 new episodes", 475, 500), ("within", 0, 4)],
    "character_rnn": [("the network at first", 5, 6), ("after 200 steps", 0, 0.2), ("writes,", 95, 100)],
    "digits_cnn": [("accuracy train", 99.0, 100.0), (", test", 97.5, 100.0), ("wrong", 1, 11)],
    "digits_logistic": [("accuracy: train", 97.0, 99.0), (", test", 95.0, 98.0)],
    "digits_mlp": [("accuracy train", 99.0, 100.0), (", test", 95.0, 100.0)],
    "gaussian_mixture": [
        ("start 0: log likelihood", -180.186, -180.185),
        ("as scikit-learn has it", -180.186, -180.185),
        ("species", 145, 145),
    ],
    "gaussian_process": [("period", 9.2, 10.0), ("error", 0.3, 0.45), ("years inside the 95 % band", 17, 20)],
    "hamiltonian_monte_carlo": [("by", 7.5, 8.5), ("mu", 4.2, 4.6), ("tau", 3.4, 3.8), ("accepted", 70, 90), ("R-hat", 0.99, 1.02)],
    "inverse_heat": [("heat given", 1.82, 1.82), ("heat recovered", 1.79, 1.83), ("misfit", 0.98, 1.02)],
    "kalman_filter": [("Newton steps", -632.55, -632.54), ("variance of the noise", 15098, 15100), ("variance of the walk", 1469, 1469.3)],
    "learned_penalties": [("ridge: log penalty", -2.35, -2.2), ("lasso: log penalty", -4.45, -4.3)],
    "meta_learning": [("the least for one curve", 2.8, 3.1), ("loss before the step", 2.8, 3.1), (", after it", 0.2, 0.45)],
    "neural_ode": [("differ by at most", 0, 1e-7), ("0.2216 at first,", 0, 0.0003), ("period of the cycle", 6.6, 6.7)],
    "normal_modes": [("springs of water", 8.43, 8.45), ("174 vibrations of", 46, 46)],
    "optimal_transport": [("true place [0.7  0.25], found [", 0.7, 0.7), ("wrong by a quarter: found [", 0.6, 0.8)],
    "pendulum_control": [("directly: effort", 14.6, 14.7), ("principle: effort", 14.6, 14.7)],
    "per_sample_gradients": [("accuracy on the test data", 95, 99), ("correlation", 0.99, 1)],
    "polynomial_regression": [("quadratic", 2.4701, 2.4702), ("best degree", 2, 2), ("degree 7: error", 14.0, 14.2)],
    "variational_inference": [("log evidence", -14.02, -14.01), ("correlated: bound", -14.1, -14.02), ("damage at 31 °F", 0.96, 0.995)],
}


@pytest.fixture
def run(tmp_path, monkeypatch, random_state):
    """What a program prints, run in a folder of its own. `.ci/run` runs each in a process of its own too, which takes most of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUNCTRACE_PICTURES", str(tmp_path / "pictures"))
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    if importlib.util.find_spec("tqdm"):
        monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # which starts a thread

    def run(source, path="<string>"):
        with contextlib.redirect_stdout(io.StringIO()) as printed, np.printoptions():
            exec(compile(source, path, "exec"), {"__name__": "__main__", "__file__": path})
        return printed.getvalue()

    return run


def _numbers_after(words, printed):
    return [float(number) for number in re.findall(re.escape(words) + r"[\s:=]*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", printed)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, run):
    source = path.read_text(encoding="utf-8")
    draws = "from _picture import" in source
    for module in OPTIONAL:
        if re.search(rf"^(from|import) {module}\b", source, re.MULTILINE) or (draws and module == "matplotlib"):
            pytest.importorskip(module)
    assert len(source.splitlines()) <= 130
    printed = run(source, str(path))
    assert len(printed.splitlines()) >= 4
    if path in LESSONS:
        assert "Both ways agree." in printed
    for words, low, high in CLAIMS.get(path.stem, []):
        found = _numbers_after(words, printed)
        assert found and low <= found[-1] <= high, f"{words!r}: {found}, wanted {low} to {high}\n{printed}"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [f"{path.stem}.png"] * draws
    if draws:
        _check_picture(tmp_path / "pictures" / f"{path.stem}.png", printed)


def _check_picture(path, printed):
    """It is where the program says, and more than an empty frame."""
    from matplotlib.image import imread

    assert f"picture: {path}" in printed.splitlines()
    image = imread(path)
    height, width, _ = image.shape
    assert width >= 600 and height >= 300
    ink = (image[:, :, :3].min(axis=2) < 0.95).mean()
    assert 0.01 < ink < 0.95


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch, the oracle, is not installed")
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_prints_what_pytorch_prints(path, run):
    source = path.read_text(encoding="utf-8")
    assert run(source) == run(source.replace("import functrace.torch as torch", "import torch"))


def test_the_lessons_are_there():
    assert {path.stem for path in LESSONS} >= {"one_layer_network", "jacobian_products", "writing_through_views", "scalar_by_hand"}


def test_every_picture_comes_with_a_claim():
    drawing = {path.stem for path in EXAMPLES if "from _picture import" in path.read_text(encoding="utf-8")}
    assert drawing == set(CLAIMS)


def test_numbers_are_found_where_they_stand():
    assert _numbers_after("loss", "loss 1.5, then loss: -2e-3\nlossless, loss of 7") == [1.5, -2e-3]
    assert _numbers_after("loss", "loss nan, accuracy 5") == []


def test_pictures_go_to_the_current_folder_unless_told_otherwise(tmp_path, monkeypatch, run):
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("FUNCTRACE_PICTURES")
    program = (
        "from _picture import save; from matplotlib.figure import Figure\n"
        "figure = Figure(); figure.subplots().plot([1, 2]); save(figure, 'line')"
    )
    assert run(program).split() == ["picture:", str(Path("pictures", "line.png"))]
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == ["line.png"]
