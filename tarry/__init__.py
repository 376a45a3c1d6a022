"""Durable agents on Temporal that wait for the world: what an application imports."""

from signals import Ask, Signal, SignalKey, Sleep, Unreadable, Wait, Wake
from tarry.api import ChildTask, Expired, NestedCall, NestedResult, Received, Send, StaleRun, Start, TaskFull, ToolApi
from tarry.app import App, Extension, Registry
from tarry.client import (
    Conversation,
    ConversationBusy,
    DurableTaskHandle,
    Harness,
    InboxFull,
    InputTooLarge,
    NoSuchConversation,
    NoSuchTask,
    NotHeld,
    RequestConflict,
    ServerUnavailable,
    Submission,
    SubmissionRefused,
    TarryError,
    WorkItem,
)
from tarry.core.waiting import SignalResult
from tarry.tasks import DurableTask, Go, Outcome
from tarry.tools import RetryTool, Tool, ToolResult, tool
from tarry.webhooks import MatchTaken, WebhookError

__all__ = [
    "App",
    "Ask",
    "ChildTask",
    "Conversation",
    "ConversationBusy",
    "DurableTask",
    "DurableTaskHandle",
    "Expired",
    "Extension",
    "Go",
    "Harness",
    "InboxFull",
    "InputTooLarge",
    "MatchTaken",
    "NestedCall",
    "NestedResult",
    "NoSuchConversation",
    "NoSuchTask",
    "NotHeld",
    "Outcome",
    "Received",
    "Registry",
    "RequestConflict",
    "RetryTool",
    "Send",
    "ServerUnavailable",
    "Signal",
    "SignalKey",
    "SignalResult",
    "Sleep",
    "StaleRun",
    "Start",
    "Submission",
    "SubmissionRefused",
    "TarryError",
    "TaskFull",
    "Tool",
    "ToolApi",
    "ToolResult",
    "Unreadable",
    "Wait",
    "Wake",
    "WebhookError",
    "WorkItem",
    "tool",
]
