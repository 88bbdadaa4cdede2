"""Any agent that speaks the Agent Client Protocol, version 1, over its stdin and stdout.

Most agents are a row of data (`row.py`): in `acp_agents.toml`, in the user's config as
`[agents.foo] acp = "foo --acp"`, or on the command line as `-a "acp:foo --acp"`.

An agent that needs more has a package of its own with an entry point, and there

    agent = AcpAgent(Row(name=…, command=(…), …), MyDialect)

where `MyDialect(Dialect)` (`dialect.py`) overrides what data cannot say: `launch` (words and
variables from the spec), `client` and `session` (more members of what is sent), `preamble` (where
the system prompt goes), `tool_name` and `parent` (in a tool call), `outcome` (of a finished one),
`failure` (of a JSON-RPC error), `asking` (questions in a request), `asks_early` and `denial` (of a
request for permission and the answer to it), `told` (its own notifications).
What it tells besides prompting (accounts, models, …) are methods of a subclass of `AcpAgent`; a
plain row tells what the protocol has a method for (`plain.py`).

Inside: `wire` says and hears, with `opening` and `hello` (up to a session), `settings` (model,
mode, effort), `prompts`, `speech`, `calls`, `tools` and `content`, `permission`, `usage`,
`failures`, and `lines`, the quick way for the words of the model.
"""
