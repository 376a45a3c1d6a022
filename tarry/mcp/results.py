"""What an MCP server answered, as a tool's result."""

from __future__ import annotations

from typing import Any

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tarry.api import ToolApi
from tarry.tools import ToolResult


def result_of(answer: CallToolResult, api: ToolApi) -> ToolResult:
    """Texts in their order; else the structured content. What is no text is named in a remark."""
    texts = [text for block in answer.content if (text := _text(block)) is not None]
    for block in answer.content:
        if (left_out := _left_out(block)) is not None:
            api.diagnostic(f"{left_out} was left out: it cannot be shown to you.", severity="warn", code="not_text")
    structured: Any = answer.structured_content
    return ToolResult(
        "\n".join(texts) if texts or structured is None else structured,
        is_error=answer.is_error,
        details=structured,
        structured=structured,
    )


def _text(block: ContentBlock) -> str | None:
    match block:
        case TextContent(text=text) | EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case ResourceLink():
            return f"{block.title or block.name}: {block.uri}"
    return None


def _left_out(block: ContentBlock) -> str | None:
    match block:
        case ImageContent() | AudioContent():
            return f"{block.mime_type} ({len(block.data) * 3 // 4} bytes)"
        case EmbeddedResource(resource=resource) if not isinstance(resource, TextResourceContents):
            return f"{resource.uri} ({len(resource.blob) * 3 // 4} bytes)"
    return None
