"""tillerman as an agent of the Agent Client Protocol (ACP), version 1: editors drive any agent.

`server` answers the editor's requests, each `session` follows one log and passes it on as updates.
"""
