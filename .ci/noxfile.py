"""The matrix: `nox -f .ci/noxfile.py` runs the tests on every Python that the machine has, on the oldest and the newest NumPy.

`nox -f .ci/noxfile.py -l` lists the sessions; `-s lint`, `-s 'tests-3.12'` run one.
"""

import nox

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "types", "tests", "oldest", "docs"]
nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """All tests, with the newest NumPy that this Python takes."""
    session.install(".[test]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session(python="3.10")
def oldest(session: nox.Session) -> None:
    """All tests, with the oldest NumPy and SciPy that are supported."""
    session.install(".[test]", "numpy==2.0.*", "scipy==1.15.*", "typing-extensions==4.8.0")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session(python="3.11")
def oracles(session: nox.Session) -> None:
    """All tests, held against PyTorch and JAX too."""
    session.install(".[test,oracle]")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """All tests and doctests, and the share of lines and branches that they run."""
    session.install(".[test]")
    measured = {"PYTEST_ADDOPTS": "--cov --cov-append --cov-report="}
    session.run("coverage", "erase")
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs, env=measured)
    session.run("python", "-m", "pytest", "--doctest-modules", "functrace", env=measured)
    session.run("python", ".ci/coverage.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and format."""
    session.install(".[lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types, by two checkers."""
    session.install(".[lint,scipy]")
    session.run("mypy")
    session.run("pyright")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, with warnings as errors, and all code on its pages."""
    session.install(".[test,docs]")
    session.run("python", "-m", "docs.pages")
    session.run("sphinx-build", "-W", "--keep-going", "-b", "html", "docs", f"{session.create_tmp()}/site")
