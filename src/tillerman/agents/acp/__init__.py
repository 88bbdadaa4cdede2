"""Driver for agents that implement the Agent Client Protocol (ACP), version 1, over stdio.

Most agents are a row of data (`rows/agent_row.py`): in `rows/acp_agents.toml`, in the user's
config as `[agents.foo] acp = "foo --acp"`, or on the command line as `-a "acp:foo --acp"`.

An agent that needs more has its own package with an entry point, which defines

    agent = AcpAgent(AcpAgentRow(name=…, command=(…), …), MyDialect)

where `MyDialect(AcpDialect)` (`dialect.py`) overrides what data cannot express: `launch` (arguments
and variables from the spec), `client` and `session` (additional members of requests), `preamble`
(where the system prompt goes), `tool_name` and `parent` (of a tool call), `outcome` (of a finished
call), `failure` (of a JSON-RPC error), `asking` (questions in a request), `asks_early` and `denial`
(of a permission request and its answer), `told` (vendor notifications).

Queries besides prompting (accounts, models, …) are methods of a subclass of `AcpAgent`; an agent
that is only a row supports those that the protocol has a method for (`rows/row_agent.py`).

Modules: `wire` encodes and decodes messages, with `session_setup` and `handshake` (opening a
session), `settings` (model, mode, effort), `prompt_blocks`, `messages`, `tool_calls`, `tools` and
`content`, `requests`, `usage`, `failures`, and `fast_path` for chunks of model text.
"""
