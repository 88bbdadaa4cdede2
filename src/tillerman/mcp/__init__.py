"""The workspace as MCP tools: for our agents through a relay, for anybody by stdio or HTTP."""
