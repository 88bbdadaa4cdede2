"""MCP server of the workspace tools: for agents through a relay, for others by stdio or HTTP."""
