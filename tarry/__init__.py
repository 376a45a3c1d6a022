"""Durable agents on Temporal that wait for the world: what an application imports."""

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
from tarry.tools import RetryTool, StaleRun, TaskFull, Tool, ToolApi, ToolResult, tool

__all__ = [
    "App",
    "Conversation",
    "ConversationBusy",
    "Extension",
    "Harness",
    "InboxFull",
    "InputTooLarge",
    "NoSuchConversation",
    "NotHeld",
    "Registry",
    "RequestConflict",
    "RetryTool",
    "ServerUnavailable",
    "StaleRun",
    "Submission",
    "SubmissionRefused",
    "TarryError",
    "TaskFull",
    "Tool",
    "ToolApi",
    "ToolResult",
    "WorkItem",
    "tool",
]
