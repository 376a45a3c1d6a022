"""Where workflows rest: after each step of a replay, the places in our code at which something is waited for."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import CoroutineType
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import WorkflowHistory
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

from tarry.attributes import DEADLINE, STATE, WAITING_FOR

WORKFLOWS = Path(__file__).parents[2] / "workflows"
MODULES = {"workflow", "asyncio"}
"""Whose functions a workflow can wait for."""


class Watching(UnsandboxedWorkflowRunner):
    """A runner that notes in `rests`, by workflow type, every place at which a workflow rested."""

    def __init__(self) -> None:
        self.rests: dict[str, set[str]] = {}

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """As without a sandbox."""
        return _Watched(super().create_instance(det), self.rests.setdefault(det.info.workflow_type, set()))


class _Watched(WorkflowInstance):
    def __init__(self, instance: Any, rests: set[str]) -> None:
        self._instance = instance
        self._rests = rests

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        completion: WorkflowActivationCompletion = self._instance.activate(act)
        self._rests |= {place for task in asyncio.all_tasks(self._instance) if (place := _place(task.get_coro()))}
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Any:
        return self._instance.get_info()


def _place(awaited: Any) -> str:
    """The innermost functions of ours on the way to what is waited for: of `supervise`, and outside of it."""
    around, inside = "", ""
    while isinstance(awaited, CoroutineType):
        file = Path(awaited.cr_code.co_filename)
        if file == WORKFLOWS / "supervise.py":
            inside = awaited.cr_code.co_qualname
        elif file.is_relative_to(WORKFLOWS):
            around, inside = f"{file.relative_to(WORKFLOWS)}:{awaited.cr_code.co_qualname}", ""
        awaited = awaited.cr_await
    return f"{around} > {inside}".strip(" >") if inside else around


def parks(history: WorkflowHistory) -> Iterator[tuple[str, str, str]]:
    """Each park of a history, as lists tell it: type, state and what is waited for, as in `places.PARKS`."""
    workflow_type = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
    for event in history.events:
        fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        told = {name: json.loads(payload.data or "null") for name, payload in fields.items()}
        if (state := told.get(STATE.name, "running")) != "running":
            keys = told.get(WAITING_FOR.name) or []
            what = ["keys"] if keys else []
            what += ["time"] if told.get(DEADLINE.name) else []
            own = sorted({key.partition("/")[0] for key in keys if key.startswith("tarry.")})
            yield workflow_type, state, ": ".join([", ".join(what), *([" ".join(own)] if own else [])])


def waiting_functions() -> set[str]:
    """Every function of ours that awaits something which is no function of ours, by file and qualified name."""
    found: set[str] = set()
    for file in sorted(WORKFLOWS.rglob("*.py")):
        for name, function in _functions(ast.parse(file.read_text()), ""):
            if any(_is_foreign(node.value) for node in ast.walk(function) if isinstance(node, ast.Await)):
                found.add(f"{file.relative_to(WORKFLOWS)}:{name}")
    return found


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _is_foreign(awaited: ast.expr) -> bool:
    """A future, or a call of Temporal's or of asyncio's."""
    if not isinstance(awaited, ast.Call):
        return True
    function = awaited.func
    if not isinstance(function, ast.Attribute):
        return False
    return function.attr == "signal" or (isinstance(function.value, ast.Name) and function.value.id in MODULES)
