"""The search attributes as workflow code sets them (spec §9.1)."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

STATE = SearchAttributeKey.for_keyword("TarryState")
CONVERSATION = SearchAttributeKey.for_keyword("TarryConversation")
TOOL = SearchAttributeKey.for_keyword("TarryTool")
