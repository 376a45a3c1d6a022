"""Kept histories: where they are, how they are written and read, and the replayer that production would be."""

from __future__ import annotations

import atexit
import base64
import functools
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Plugin, Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from tarry.connect import data_converter
from workers.worker import WORKFLOWS

HISTORIES = Path(__file__).parent / "histories"
STORE = HISTORIES / "store"
"""The blobs that histories refer to, as a store keeps them."""

_PASSED_THROUGH = ("signals", "tarry", "pydantic", "pydantic_core", "httpx", "httpx2", "openai", "opentelemetry")
"""What workflows import of others: the machines have no clock and no IO by the linter, and take long to import anew."""

_LEFT_OUT = ("identity", "meteringMetadata", "stackTrace", "workerVersion")
"""Fields that tell where a history was recorded, or what it cost: replay does not read them."""


def names() -> list[str]:
    """The kept scenarios."""
    return sorted(path.stem for path in HISTORIES.glob("*.json"))


def read(name: str) -> list[WorkflowHistory]:
    """The histories of one scenario, every run of each of its workflows."""
    kept = json.loads((HISTORIES / f"{name}.json").read_text())
    return [WorkflowHistory.from_json(item["id"], item["history"]) for item in kept]


def write(name: str, histories: Sequence[WorkflowHistory], store: Path) -> None:
    """Keep histories and the blobs of `store` that they refer to.

    Raises:
        FileExistsError: the scenario is kept already. What ran once must replay for ever, so it is never made anew.
    """
    kept = [{"id": history.workflow_id, "history": _cleaned(history.to_json_dict())} for history in histories]
    with (HISTORIES / f"{name}.json").open("x") as file:
        json.dump(kept, file, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    for blob in {found for item in kept for found in _blobs(item, store)}:
        target = STORE / blob.relative_to(store)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(blob, target)


def replayer(*workflows: type, plugins: Sequence[Plugin] = ()) -> Replayer:
    """Production's workflows, or these, with production's runner and converter."""
    return _replayer(workflows or WORKFLOWS, UnsandboxedWorkflowRunner(), plugins)


def sandboxed(*workflows: type) -> Replayer:
    """The same in the SDK's sandbox, which refuses code in `workflows` clock, chance and IO."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*_PASSED_THROUGH)
    return _replayer(workflows or WORKFLOWS, SandboxedWorkflowRunner(restrictions=restrictions), ())


def _replayer(workflows: Sequence[type], runner: WorkflowRunner, plugins: Sequence[Plugin]) -> Replayer:
    return Replayer(workflows=workflows, workflow_runner=runner, data_converter=converter(), plugins=plugins)


def converter() -> DataConverter:
    """Production's, with the blobs that are kept."""
    return data_converter(_copy_of(STORE))


@functools.cache
def _copy_of(store: Path) -> str:
    """What a workflow sends is stored anew when it is replayed: not among what is kept."""
    copy = tempfile.mkdtemp(prefix="tarry-replay-")
    atexit.register(shutil.rmtree, copy)
    shutil.copytree(store, copy, dirs_exist_ok=True)
    return copy


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
            return {"kind": value["kind"], "name": "sticky"}  # its name is the worker's host and process
        return {key: _cleaned(item) for key, item in value.items() if key not in _LEFT_OUT}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _blobs(value: Any, store: Path) -> Iterator[Path]:
    """The files of the payloads that a history holds by reference."""
    if isinstance(value, list):
        for item in value:
            yield from _blobs(item, store)
    elif isinstance(value, dict):
        if isinstance(data := value.get("data"), str):
            for name in re.findall(r"[0-9a-f]{64}", base64.b64decode(data).decode("latin-1")):
                blob = store / name[:2] / name[2:4] / name
                if blob.is_file():
                    yield blob
        for item in value.values():
            yield from _blobs(item, store)
