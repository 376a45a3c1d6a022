"""The search attributes as code reads and sets them; one key for each of `tarry.core.attributes` in use (spec §9.1)."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

from tarry.core import attributes

STATE = SearchAttributeKey.for_keyword(attributes.STATE.name)
CONVERSATION = SearchAttributeKey.for_keyword(attributes.CONVERSATION.name)
TOOL = SearchAttributeKey.for_keyword(attributes.TOOL.name)
WAITING_FOR = SearchAttributeKey.for_keyword_list(attributes.WAITING_FOR.name)
DEADLINE = SearchAttributeKey.for_datetime(attributes.DEADLINE.name)
DECIDED = SearchAttributeKey.for_datetime(attributes.DECIDED.name)
REGISTRY = SearchAttributeKey.for_keyword(attributes.REGISTRY.name)
WORKER = SearchAttributeKey.for_keyword(attributes.WORKER.name)
