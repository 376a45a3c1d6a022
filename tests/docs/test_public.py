"""What an application imports is listed, importable, documented and annotated; the rules that code cites exist."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

import pytest

import tarry
import tarry.subagents
import tarry.testing
from tests.support.programs import ROOT

PUBLIC = (tarry, tarry.testing, tarry.subagents)
PACKAGES = ("signals", "tarry", "workflows", "activities", "workers", "tests", "examples", "bench")
CITATION = re.compile(r"\(spec (§[^)]*)\)")
NUMBER = re.compile(r"§(\d+(?:\.\d+)*)")
RULE = re.compile(r"^(?:## |\*\*)(\d+(?:\.\d+)*)", re.MULTILINE)
RAISES = re.compile(r"^Raises:\n((?: +.*\n?)+)", re.MULTILINE)
RAISED = re.compile(r"^ {4}([\w, ]+):", re.MULTILINE)


def imports_of(module: ModuleType) -> dict[str, str]:
    """Where each name that a module re-exports comes from."""
    nodes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ImportFrom)]
    return {
        alias.name: node.module for node in nodes if node.module != "__future__" for alias in node.names if node.module
    }


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module, and of each class its public methods and properties, inherited ones of ours too."""
    for name in module.__all__:
        value = getattr(module, name)
        yield f"{module.__name__}.{name}", value
        if inspect.isclass(value):
            ours = [base for base in value.__mro__ if base.__module__.partition(".")[0] in PACKAGES]
            for member, found in (item for base in ours for item in vars(base).items()):
                plain = getattr(found, "__func__", found)
                if not member.startswith("_") and isinstance(plain, FunctionType | property):
                    yield f"{module.__name__}.{name}.{member}", plain


def functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """Every function that an application calls, constructors and what stands behind properties included."""
    for name, value in members(module):
        if isinstance(value, property):
            assert isinstance(value.fget, FunctionType)
            yield name, value.fget
        elif isinstance(value, FunctionType):
            yield name, value
        elif inspect.isclass(value):
            made = vars(value).get("__init__")
            # A protocol has one of typing's.
            if isinstance(made, FunctionType) and made.__module__ == value.__module__:
                yield f"{name}.__init__", made


def is_documented(name: str, value: Any, origins: dict[str, str]) -> bool:
    if isinstance(value, FunctionType | property) or inspect.isclass(value):
        text = value.__doc__ or ""
        # Dataclasses write one when nobody else does.
        return bool(text.strip()) and not text.startswith(f"{name.rpartition('.')[2]}(")
    return is_documented_alias(name.rpartition(".")[2], origins)


def is_documented_alias(name: str, origins: dict[str, str]) -> bool:
    """Whether a string stands below the assignment; a type alias has no docstring of its own."""
    body = ast.parse(inspect.getsource(importlib.import_module(origins[name]))).body
    (below,) = [
        after for node, after in pairwise(body) if isinstance(node, ast.Assign) and name in ast.unparse(node.targets[0])
    ]
    return isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)


def unannotated(function: FunctionType) -> list[str]:
    hints = get_type_hints(function)
    wanted = [*inspect.signature(function).parameters, "return"]
    return [name for name in wanted if name not in hints and name not in ("self", "cls")]


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_everything_that_a_public_module_imports_is_listed_once(module: ModuleType) -> None:
    assert sorted(module.__all__) == sorted(imports_of(module))


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_has_a_docstring_of_its_own(module: ModuleType) -> None:
    origins = imports_of(module)

    assert [name for name, value in members(module) if not is_documented(name, value, origins)] == []


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_function_is_annotated_in_full(module: ModuleType) -> None:
    assert {name: missing for name, function in functions(module) if (missing := unannotated(function))} == {}


def test_every_error_that_the_api_says_it_raises_can_be_imported_from_it() -> None:
    texts = [inspect.cleandoc(value.__doc__ or "") for _, value in members(tarry)]
    sections = [section for text in texts for section in RAISES.findall(text)]
    errors = {error for section in sections for names in RAISED.findall(section) for error in names.split(", ")}

    assert errors > {"RequestConflict", "StaleRun", "ValueError"}
    assert sorted(error for error in errors if not hasattr(tarry, error) and not hasattr(builtins, error)) == []


def test_every_cited_rule_is_in_the_specification() -> None:
    rules = set(RULE.findall((ROOT / "docs" / "spec.md").read_text()))
    cited = {
        (rule, str(file.relative_to(ROOT)))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for citation in CITATION.findall(file.read_text())
        for rule in NUMBER.findall(citation)
    }

    assert len(cited) > 50
    assert sorted(where for where in cited if where[0] not in rules) == []
