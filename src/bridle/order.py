"""What a session is to run: agent, spec and terms, worked out from config and wishes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bridle import agents
from bridle.agents.support import refuse_unsupported
from bridle.config import Config
from bridle.core.agent import Agent, SessionSpec
from bridle.sessions.terms import Limits, Terms
from bridle.supervision.environment import asked_for, child_environment, secrets_of


class Order(NamedTuple):
    agent: Agent
    spec: SessionSpec
    terms: Terms


def order(
    config: Config,
    agent: str,
    *,
    cwd: Path | str = ".",
    approve: str | None = None,
    timeout: float | None = None,
    env: Sequence[str] = (),
    **wishes: Any,
) -> Order:
    """`wishes` are fields of `SessionSpec`. What the agent cannot do raises `Unsupported`."""
    driver = agents.load(agent, config.agents, experimental=config.experimental_agents)
    options = config.agents.get(agent, {})
    spec = _spec(driver, config, cwd, options, wishes)
    refuse_unsupported(driver.info, spec)
    return Order(driver, spec, _terms(driver, config, spec, approve, timeout, env))


def _spec(
    agent: Agent,
    config: Config,
    cwd: Path | str,
    options: Mapping[str, Any],
    wishes: Mapping[str, Any],
) -> SessionSpec:
    given = {name: value for name, value in wishes.items() if value not in (None, (), {})}
    if "model" in agent.info.can and (model := options.get("model") or config.model):
        given.setdefault("model", model)
    if "limits" in agent.info.can:
        limits = {"max_turns": config.limits.turns, "max_cost": config.limits.cost}
        for name, limit in limits.items():
            if limit is not None:
                given.setdefault(name, limit)
    given.setdefault("flags", tuple(options.get("flags", ())))
    given["options"] = {**options, **given.get("options", {})}
    return SessionSpec(cwd=Path(cwd).resolve(), **given)


def _terms(
    agent: Agent,
    config: Config,
    spec: SessionSpec,
    approve: str | None,
    timeout: float | None,
    env: Sequence[str],
) -> Terms:
    passed, given = asked_for(env)
    child = child_environment(
        os.environ, agent.info.variables, [*config.env.passed, *passed], given
    )
    limits = config.limits
    return Terms(
        approve=approve or config.approve,
        supervision=config.supervision,
        environment=child.variables,
        secrets=[
            *secrets_of({**os.environ, **child.variables}),
            *(_of_servers(spec) if spec.servers else ()),
        ],
        limits=Limits(turn=timeout or limits.total, idle=limits.idle, request=limits.request),
        output_cap=limits.tool_output,
        spill_cap=limits.spill,
        turn_cap=limits.turn_log,
        line_cap=limits.line,
    )


def _of_servers(spec: SessionSpec) -> list[tuple[str, str]]:
    from bridle.supervision.secrets.servers import secrets_of_servers  # few sessions have any

    return secrets_of_servers(spec.servers)
