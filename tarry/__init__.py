"""Durable agents on Temporal that wait for the world: what an application imports."""

from signals import Ask, Signal, SignalKey, Sleep, Unreadable, Wake
from tarry.api import Expired, Received, StaleRun, TaskFull, ToolApi
from tarry.app import App, Extension, Registry
from tarry.client import (
    Conversation,
    ConversationBusy,
    Harness,
    InboxFull,
    InputTooLarge,
    NoSuchConversation,
    NotHeld,
    RequestConflict,
    ServerUnavailable,
    Submission,
    SubmissionRefused,
    TarryError,
    WorkItem,
)
from tarry.core.waiting import SignalResult
from tarry.tools import RetryTool, Tool, ToolResult, tool

__all__ = [
    "App",
    "Ask",
    "Conversation",
    "ConversationBusy",
    "Expired",
    "Extension",
    "Harness",
    "InboxFull",
    "InputTooLarge",
    "NoSuchConversation",
    "NotHeld",
    "Received",
    "Registry",
    "RequestConflict",
    "RetryTool",
    "ServerUnavailable",
    "Signal",
    "SignalKey",
    "SignalResult",
    "Sleep",
    "StaleRun",
    "Submission",
    "SubmissionRefused",
    "TarryError",
    "TaskFull",
    "Tool",
    "ToolApi",
    "ToolResult",
    "Unreadable",
    "Wake",
    "WorkItem",
    "tool",
]
