"""The workspace tools of a session, run for its agent or for an MCP client."""
