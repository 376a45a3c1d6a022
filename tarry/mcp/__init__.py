"""Tools of MCP servers (docs/coding.md)."""

from tarry.mcp.connection import McpUnavailable
from tarry.mcp.servers import HttpServer, McpServer, StdioServer
from tarry.mcp.tools import mcp_server

__all__ = ["HttpServer", "McpServer", "McpUnavailable", "StdioServer", "mcp_server"]
