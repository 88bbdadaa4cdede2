"""The workspace folder of an agent: file tools, processes, protection, git and branch status."""
