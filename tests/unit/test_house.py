"""The house keeps its own rules: sizes, docstrings, import directions, the lock file and the wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tarry.core.attributes import ATTRIBUTES

ROOT = Path(__file__).parents[2]
PACKAGES = ("signals", "tarry", "workflows", "activities", "workers")
FOLDERS = (*PACKAGES, "tests", "examples", "bench")
MOST_LINES_IN_A_FILE = 400
MOST_LINES_IN_A_FUNCTION = 60


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def locked() -> dict[str, tuple[str, str]]:
    """What the lock file pins: name to (version, the hashes' text)."""
    text = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^(\S+?)==(\S+)(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return {canonicalize_name(name): (version, hashes) for name, version, hashes in pins}


def declared() -> list[Requirement]:
    """What pyproject.toml asks for: to build, to run, and for every extra."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return [Requirement(line) for line in [*settings["build-system"]["requires"], *project["dependencies"], *extras]]


def imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_every_module_says_what_it_is() -> None:
    files = python_files(*PACKAGES, "bench")
    silent = [name_of(file) for file in files if not ast.get_docstring(ast.parse(file.read_text()))]

    assert silent == []


def test_no_file_is_longer_than_400_lines() -> None:
    sizes = {name_of(file): len(file.read_text().splitlines()) for file in python_files(*FOLDERS)}

    assert {name: size for name, size in sizes.items() if size > MOST_LINES_IN_A_FILE} == {}


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{name_of(file)}:{node.lineno} {node.name}"
        for file in python_files(*FOLDERS)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.body[0].lineno >= MOST_LINES_IN_A_FUNCTION
    ]

    assert long == []


def test_pure_packages_import_only_the_standard_library_and_pydantic() -> None:
    pure = {"pydantic", "pydantic_core", "signals"}
    allowed = {"signals": pure, "tarry/core": {*pure, "tarry.core"}}
    foreign = [
        f"{name_of(file)}: {module}"
        for folder, names in allowed.items()
        for file in python_files(folder)
        for module in imports_of(file)
        if module.split(".")[0] not in sys.stdlib_module_names
        and not any(module == name or module.startswith(f"{name}.") for name in names)
    ]

    assert foreign == []


def test_workflows_are_asked_by_one_function_that_believes_no_worker_of_the_wrong_build() -> None:
    asking = {
        name_of(file)
        for file in python_files("tarry", "activities", "workers")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "query"
    }

    assert asking == {"tarry/asking.py"}


@pytest.mark.parametrize("folder", ["signals", "tarry/core", "workflows"])
def test_clock_chance_and_environment_are_refused_where_code_must_replay(folder: str) -> None:
    reads = [
        "import random",
        "import os, time, uuid",
        "from datetime import datetime",
        "datetime.now()",
        "time.time()",
        "uuid.uuid4()",
        "os.environ",
    ]

    file = ["--stdin-filename", f"{folder}/new.py", "-"]
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--select=TID251", "--output-format=concise", *file],
        input="\n".join(reads),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    refused = {int(line) for line in re.findall(r"new\.py:(\d+):\d+: TID251", checked.stdout)}
    assert refused == {1, 4, 5, 6, 7}, checked.stdout + checked.stderr


def test_lock_pins_every_dependency_with_hashes() -> None:
    pins = locked()

    assert [str(wish) for wish in declared() if canonicalize_name(wish.name) not in pins] == []
    assert [str(wish) for wish in declared() if pins[canonicalize_name(wish.name)][0] not in wish.specifier] == []
    assert [name for name, (_, hashes) in pins.items() if "--hash=sha256:" not in hashes] == []


def test_lock_names_no_place_to_fetch_from() -> None:
    text = (ROOT / "requirements.lock").read_text()

    assert re.findall(r"\S*://\S*|--\S*index\S*|--find-links\S*|--trusted-host\S*", text) == []


def test_wheel_carries_tarry_and_signals_only(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )

    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed >= {name_of(file) for file in python_files("tarry", "signals")}
    assert {name.split("/")[0] for name in packed} == {"tarry", "signals"}


@pytest.mark.parametrize("name", ["signals", "workflows", "activities"])
def test_no_process_starts_beside_a_foreign_package_of_our_names(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()

    started = subprocess.run(
        [sys.executable, "-P", "-c", "import workers"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
    )

    assert started.returncode == 2
    assert len(started.stderr.splitlines()) == 1
    assert f"`{name}` leads to {tmp_path / name}" in started.stderr


def test_development_server_page_names_every_search_attribute() -> None:
    page = (ROOT / "temporal-dev" / "README.md").read_text()

    assert [a.name for a in ATTRIBUTES if f"--name {a.name} --type {a.type}" not in page] == []
