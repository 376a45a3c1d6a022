"""The client: what a program that talks to agents uses. All async, usable from a plain script."""

from tarry.client.agents import AgentTree
from tarry.client.compactions import Compaction
from tarry.client.conversation import Conversation
from tarry.client.conversation_documents import ConversationDocument
from tarry.client.documents import StoredDocument
from tarry.client.durable_tasks import DurableTaskHandle
from tarry.client.errors import (
    AgentRefused,
    ConversationBusy,
    ConversationExists,
    DocumentConflict,
    InboxFull,
    InputTooLarge,
    NoSuchAgents,
    NoSuchConversation,
    NoSuchEntry,
    NoSuchTask,
    NotAsked,
    NotHeld,
    RequestConflict,
    ServerUnavailable,
    SubmissionRefused,
    TarryError,
    UnreadableOutput,
)
from tarry.client.harness import Harness
from tarry.client.submission import Answered, Submission
from tarry.client.usage import UsageReport
from tarry.client.waking import WakeCheck
from tarry.client.watch import Change
from tarry.client.work import WorkItem
from tarry.core.live import LiveView, Question
from tarry.core.wake_plan import WakePlan

__all__ = [
    "AgentRefused",
    "AgentTree",
    "Answered",
    "Change",
    "Compaction",
    "Conversation",
    "ConversationBusy",
    "ConversationDocument",
    "ConversationExists",
    "DocumentConflict",
    "DurableTaskHandle",
    "Harness",
    "InboxFull",
    "InputTooLarge",
    "LiveView",
    "NoSuchAgents",
    "NoSuchConversation",
    "NoSuchEntry",
    "NoSuchTask",
    "NotAsked",
    "NotHeld",
    "Question",
    "RequestConflict",
    "ServerUnavailable",
    "StoredDocument",
    "Submission",
    "SubmissionRefused",
    "TarryError",
    "UnreadableOutput",
    "UsageReport",
    "WakeCheck",
    "WakePlan",
    "WorkItem",
]
