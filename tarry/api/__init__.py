"""The `api` that running code of an application is given: a tool, a hook of it, a phase of a durable task."""

from __future__ import annotations

from typing import Protocol

from tarry.api.agents import AgentsApi, TreeApi
from tarry.api.children import ChildrenApi, ChildTask, NestedCall, NestedResult
from tarry.api.conversing import ConversingApi, Send, Start
from tarry.api.documents import DocumentsApi, TaskDocument
from tarry.api.running import RunningApi, StaleRun, TaskFull
from tarry.api.signalling import Expired, Received, SignallingApi

__all__ = [
    "ChildTask",
    "Expired",
    "NestedCall",
    "NestedResult",
    "Received",
    "Send",
    "StaleRun",
    "Start",
    "TaskDocument",
    "TaskFull",
    "ToolApi",
    "TreeApi",
]


class ToolApi(RunningApi, SignallingApi, ChildrenApi, ConversingApi, DocumentsApi, AgentsApi, Protocol):
    """What a running tool may use. Declare a parameter named `api` to receive it.

    Safe to use from the tool's own thread or event loop; the coroutines are for async tools, the
    `*_sync` twin for sync ones.
    """
