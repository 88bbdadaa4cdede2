"""What a session is to run: agent, spec and terms, worked out from config and wishes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from tillerman import agents
from tillerman.agents.stdio.capability_check import refuse_unsupported
from tillerman.config import Config
from tillerman.config.settings import ISOLATION
from tillerman.core.agent import Agent, SessionSpec
from tillerman.core.capabilities import REPORTS_COST
from tillerman.core.errors import Unsupported, UsageError
from tillerman.core.output_schema import AnswerFormat
from tillerman.core.session_options import check_options
from tillerman.sessions.run_settings import (
    SERVER,
    EnforcementSettings,
    LaunchPlan,
    RunSettings,
    TurnLimits,
    UntilSettings,
    WorkspaceToolSettings,
)
from tillerman.supervision.environment import (
    asked_for,
    child_environment,
    is_credential,
    secrets_of,
)

if TYPE_CHECKING:
    from tillerman.core.events import Notice

_NAMED = 8  # variables that a notice names
UNATTENDED = 300.0  # seconds for an answer from elsewhere, where nobody set another limit


def launch_plan(
    config: Config,
    agent: str,
    *,
    cwd: Path | str = ".",
    approve: str | None = None,
    timeout: float | None = None,
    request_timeout: float | None = None,
    unattended: bool = False,
    max_tokens: int | None = None,
    accept_unpriced: bool = False,
    repair_output: bool | None = None,
    env: Sequence[str] = (),
    tools: Sequence[str] = (),
    workspace_tools: bool | None = None,
    alone: bool = True,
    **wishes: Any,
) -> LaunchPlan:
    """`wishes` are fields of `SessionSpec`. What the agent cannot do raises `Unsupported`.

    `request_timeout`: seconds until what nobody answered is denied; `unattended`: nobody is in
    front of it who could. `accept_unpriced`: it goes on though a limit on cost cannot be held.
    `repair_output`: it is asked once more for an answer that does not fit `output_schema`.
    `tools`: the only ones it may use, by our names. `workspace_tools`: it
    gets tillerman's as well. Not `alone`: the options are for any of several agents, so a model
    that is
    another's is left out.
    """
    check_options(
        {
            "cwd": cwd,
            "approve": approve,
            "timeout": timeout,
            "request_timeout": request_timeout,
            "unattended": unattended,
            "max_tokens": max_tokens,
            "accept_unpriced": accept_unpriced,
            "repair_output": repair_output,
            "env": env,
            "tools": tools,
            "workspace_tools": workspace_tools,
            "alone": alone,
            **wishes,
        }
    )
    driver = agents.load(agent, config.agents, experimental=config.experimental_agents)
    options = config.agents.get(agent, {})
    given = {name: value for name, value in wishes.items() if value not in (None, (), {})}
    warnings = _choose_model(driver, config, options, given, alone)
    limits = replace(
        _limits(config, given, timeout, max_tokens),
        request=request_timeout or _patience(config, unattended),
        accept_unpriced=accept_unpriced,
    )
    if "limits" not in driver.info.can:  # ours hold for it all the same
        given = {name: given[name] for name in given.keys() - {"max_turns", "max_cost"}}
    if tools and "tools" in driver.info.can:
        given["denied_tools"] = (*given.get("denied_tools", ()), *_others(tools))
    repair = config.output.repair if repair_output is None else repair_output
    answer = _answer_format(driver, given, repair)
    given.setdefault("flags", tuple(options.get("flags", ())))
    given["options"] = {**options, **given.get("options", {})}
    given.setdefault("accept_advisory", config.accept_advisory)
    spec = SessionSpec(
        cwd=Path(cwd).resolve(),
        approve=approve or config.approve,
        only_tools=tuple(tools),
        **given,
    )
    refuse_unsupported(driver.info, spec)
    _refuse_vain_limits(driver, limits)
    _refuse_unpriced(driver, config, spec.model, limits)
    terms = _terms(driver, config, spec, approve, env)
    if agents.is_users_own(agent, config.agents):
        warnings += _withheld(driver, terms.environment)
    if config.workspace.tools if workspace_tools is None else workspace_tools:
        warnings = [*warnings, *_refused_tools(driver, spec, asked=bool(workspace_tools))]
        offered = "mcp" in driver.info.can
        terms = replace(terms, bench=bench(config, env) if offered else None)
    terms = replace(terms, limits=limits, tools=tuple(tools), answer=answer)
    return LaunchPlan(driver, spec, replace(terms, notices=_notices(warnings)))


def guest_order(
    config: Config,
    guest: Agent,
    *,
    cwd: Path,
    approve: str | None = None,
    isolation: str | None = None,
    request_timeout: float | None = None,
    env: Sequence[str] = (),
) -> LaunchPlan:
    """For one who is not started here, and may be silent for as long as they like."""
    check_options(
        {
            "cwd": cwd,
            "approve": approve,
            "isolation": isolation,
            "request_timeout": request_timeout,
            "env": env,
        }
    )
    spec = SessionSpec(cwd=cwd.resolve(), approve=approve or config.approve)
    terms = _terms(guest, config, spec, approve, env)
    limits = TurnLimits(request=request_timeout or _patience(config, unattended=True))
    offered = replace(bench(config, env, isolation), survives=True)
    return LaunchPlan(guest, spec, replace(terms, limits=limits, bench=offered))


def bench(
    config: Config, env: Sequence[str] = (), isolation: str | None = None
) -> WorkspaceToolSettings:
    """The stricter of what is asked for and what the config says."""
    passed, given = asked_for(env)
    child = child_environment(os.environ, (), [*config.env.passed, *passed], given)
    wished = {config.workspace.isolation, isolation or config.workspace.isolation}
    strictest = next(level for level in ISOLATION if level in wished)
    return WorkspaceToolSettings(environment=child.variables, isolation=strictest)


def _refused_tools(agent: Agent, spec: SessionSpec, *, asked: bool) -> list[str]:
    """What there is to warn of, where an agent cannot be given tillerman's tools."""
    name = agent.info.name
    if SERVER in spec.servers:
        raise UsageError(
            f"an MCP server is called {SERVER!r} already",
            hint=f"tillerman's own tools have that name: use another one in --mcp-config ({name})",
        )
    if "mcp" in agent.info.can:
        return []
    if asked:
        raise Unsupported(name, "MCP servers, and so none of tillerman's tools")
    return [f"{name} takes no MCP servers: it gets none of tillerman's tools"]


def _answer_format(agent: Agent, given: dict[str, Any], repair: bool) -> AnswerFormat | None:
    """What the session holds the answer to; an agent that takes no schema is asked in words."""
    schema = given.get("output_schema")
    if schema is None:
        return None
    from tillerman.sessions.runner.output_check import check_schema

    check_schema(schema)
    if "schema" not in agent.info.can:
        del given["output_schema"]
    return AnswerFormat(schema, repair)


def _withheld(agent: Agent, passed: Mapping[str, str]) -> list[str]:
    """Of an agent that only the user knows: nobody could say which variables are its own."""
    names = [name for name in os.environ if is_credential(name) and name not in passed]
    if agent.info.variables or not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    shown = ", ".join(sorted(names)[:_NAMED])
    return [f"{agent.info.name} does not get {shown}{more}: --env NAME passes a variable on"]


def _choose_model(
    agent: Agent, config: Config, options: Mapping[str, Any], given: dict[str, Any], alone: bool
) -> list[str]:
    """Puts the agent's own name for the model in place; returns what there is to warn of."""
    general = None if options.get("model") else config.model
    wished = given.get("model")
    model = wished or options.get("model") or config.model
    if not model or (not wished and "model" not in agent.info.can):
        return []
    from tillerman.config.model_table import load_models  # most runs name no model

    models = load_models(config.models)
    name = agent.info.name
    if model == general or not alone:
        theirs = models.whose(model)
        if theirs and name not in theirs:
            given.pop("model", None)
            return [f"{model} is a model of {', '.join(theirs)}: {name} chooses its own"]
    own = models.own(name, model)
    given["model"] = own.name
    return [own.warning] if own.warning else []


def _limits(
    config: Config, given: dict[str, Any], timeout: float | None, tokens: int | None
) -> TurnLimits:
    """Of the config too, where a wish says nothing; they go to the agent and to the session."""
    ours = config.limits
    for name, limit in {"max_turns": ours.turns, "max_cost": ours.cost}.items():
        if limit is not None:
            given.setdefault(name, limit)
    return TurnLimits(
        turn=timeout or ours.total,
        idle=ours.idle,
        turns=given.get("max_turns"),
        cost=given.get("max_cost"),
        tokens=tokens or ours.tokens,
    )


def _patience(config: Config, unattended: bool) -> float:
    """Who runs it without a terminal may answer from another one, or be a script that waits."""
    if unattended and "limits.request" not in config.sources:
        return min(UNATTENDED, config.limits.request)
    return config.limits.request


def _refuse_vain_limits(agent: Agent, limits: TurnLimits) -> None:
    """Better than to run without a limit that was asked for."""
    can = agent.info.can
    vain = {
        "a limit on cost": limits.cost is not None and can.isdisjoint({"usage", "limits"}),
        "a limit on tokens": limits.tokens is not None and "usage" not in can,
    }
    for feature in (name for name, is_vain in vain.items() if is_vain):
        raise Unsupported(
            agent.info.name,
            f"{feature}, since it does not tell what it uses",
            hint="limit it by --max-turns or --timeout",
        )


def _refuse_unpriced(agent: Agent, config: Config, model: str | None, limits: TurnLimits) -> None:
    """A model that is not named is known only when the agent has started."""
    if limits.cost is None or limits.accept_unpriced or model is None:
        return
    if not agent.info.can.isdisjoint(REPORTS_COST):
        return
    from tillerman.config.model_table import load_models

    if load_models(config.models).price(model) is None:
        raise Unsupported(
            agent.info.name,
            f"a limit on cost with {model}: it reports no cost, and no price is known",
            hint="give the price under [models] in the config, limit it by --max-tokens, or go on "
            "without the limit: --accept-unpriced",
        )


def _others(tools: Sequence[str]) -> list[str]:
    from tillerman.core.permission import OF_THE_LOOP
    from tillerman.core.tools import TOOLS

    return sorted(set(TOOLS) - set(tools) - OF_THE_LOOP)


def _notices(warnings: Sequence[str]) -> tuple[Notice, ...]:
    if not warnings:
        return ()
    from tillerman.core.events import Notice

    return tuple(Notice(level="warning", kind="settings", text=text) for text in warnings)


def _terms(
    agent: Agent,
    config: Config,
    spec: SessionSpec,
    approve: str | None,
    env: Sequence[str],
) -> RunSettings:
    passed, given = asked_for(env)
    child = child_environment(
        os.environ, agent.info.variables, [*config.env.passed, *passed], given
    )
    limits = config.limits
    return RunSettings(
        approve=approve or config.approve,
        supervision=config.supervision,
        environment=child.variables,
        secrets=[
            *secrets_of({**os.environ, **child.variables}),
            *(_of_servers(spec) if spec.servers else ()),
        ],
        models=config.models,
        vet=config.prompts.check or "",
        until=UntilSettings(config.until.command or "", config.until.rounds),
        rules=config.rules,
        tightening=config.tightening,
        enforcement=convert(to_builtins(config.enforcement), EnforcementSettings),
        output_cap=limits.tool_output,
        spill_cap=limits.spill,
        turn_cap=limits.turn_log,
        line_cap=limits.line,
    )


def _of_servers(spec: SessionSpec) -> list[tuple[str, str]]:
    from tillerman.supervision.secrets.mcp_server_secrets import (
        secrets_of_servers,  # few sessions have any
    )

    return secrets_of_servers(spec.servers)
