"""Starts a turn in the session service, as `tillerman run` would start it here."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import UsageError
from tillerman.surfaces.server.service_client import started

if TYPE_CHECKING:
    from tillerman.config import Config


def start(
    options: Namespace,
    folder: Path,
    text: str,
    files: list[tuple[str, str, bytes]],
    requested: dict[str, Any],
) -> dict[str, Any]:
    """Returns the session's row. The service is started if it does not run."""
    from tillerman.config import find_paths, load

    paths = find_paths()
    config = load(folder, paths=paths)
    given = {name: _plain(value) for name, value in requested.items()}
    agents = _agents(config, options, requested, folder)
    given["env"] = [*_brought(config, agents), *requested.get("env", ())]
    given |= {"linger": 0, "approve": requested.get("approve", config.approve)}
    attached = [{"name": name, "mime": mime, "data": data} for name, mime, data in files]
    client = started(paths)
    if options.resume is None:
        agent = options.agent or ",".join(agents)  # by the config and variables of this terminal
        body = {"agent": agent, "cwd": str(folder), "title": options.title}
        body |= {"prompt": text, "files": attached, **given}
        row: dict[str, Any] = client.call("POST", "/sessions", body)
        return row
    if options.resume == "last":
        found = client.call("GET", f"/sessions?cwd={_quoted(str(folder))}&limit=1")
        if not found:
            raise UsageError(
                "there is no earlier session in this folder", hint="`tillerman sessions list`"
            )
        session = found[0]["id"]
    else:
        session = client.call("GET", f"/sessions/{_quoted(options.resume)}")["id"]
    client.call("POST", f"/sessions/{session}/turns", {"text": text, "files": attached, **given})
    resumed: dict[str, Any] = client.call("GET", f"/sessions/{session}")
    return resumed


def _agents(
    config: Config, options: Namespace, requested: dict[str, Any], folder: Path
) -> list[str]:
    from tillerman.harness.agent_selection import select_agents

    return list(select_agents(config, options.agent, requested.get("model"), folder).names)


def _brought(config: Config, names: list[str]) -> list[str]:
    """The variables of this terminal that the agents would get here: the service has others."""
    from tillerman import agents
    from tillerman.supervision.environment import child_environment

    variables: list[str] = []
    for name in names:
        if ":" not in name:
            loaded = agents.load(name, config.agents, experimental=config.experimental_agents)
            variables += loaded.info.variables
    found = child_environment(os.environ, variables, config.env.passed).variables
    return [f"{name}={value}" for name, value in found.items()]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [str(one) if isinstance(one, Path) else one for one in value]
    return value


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
