"""Builds a launch plan: agent, `SessionSpec` and `RunSettings`, from config and options."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
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
from tillerman.core.program.answer_format import AnswerFormat
from tillerman.core.program.callbacks import Callbacks
from tillerman.core.session_options import check_options, session_spec
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
    from tillerman.core.program.python_tools import ToolServer

_NAMED = 8  # variables to name in a notice
UNATTENDED = 300.0  # seconds to wait for an answer without a terminal, unless configured


# Long, since it has one parameter for each option of a session.
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
    servers: Mapping[str, Mapping[str, Any] | ToolServer] | None = None,
    callbacks: Callbacks | None = None,
    alone: bool = True,
    **spec_fields: Any,
) -> LaunchPlan:
    """Builds a launch plan. `spec_fields` are fields of `SessionSpec`; raises `Unsupported`.

    `request_timeout`: seconds until an unanswered request is denied. `unattended`: no user is at a
    terminal to answer. `accept_unpriced`: continue although a cost limit cannot be enforced.
    `repair_output`: ask once more for an answer that does not match `output_schema`. `tools`: the
    only tools the agent may use, by tillerman's names. `workspace_tools`: also offer tillerman's
    workspace tools. Not `alone`: the options are for any of several agents, so a model of another
    agent is ignored.
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
            "servers": servers,
            "alone": alone,
            **spec_fields,
        }
    )
    driver = agents.load(agent, config.agents, experimental=config.experimental_agents)
    options = config.agents.get(agent, {})
    given = {name: value for name, value in spec_fields.items() if value not in (None, (), {})}
    given["servers"], functions = _separate(driver, servers or {})
    warnings = _choose_model(driver, config, options, given, alone)
    max_wait = request_timeout or _max_wait(config, unattended)
    limits = _limits(config, given, timeout, max_wait, max_tokens, accept_unpriced)
    if "limits" not in driver.info.can:  # tillerman's own limits still apply
        given = {name: given[name] for name in given.keys() - {"max_turns", "max_cost"}}
    if tools and "tools" in driver.info.can:
        given["denied_tools"] = (*given.get("denied_tools", ()), *_others(tools))
    repair = config.output.repair if repair_output is None else repair_output
    answer = _answer_format(driver, given, repair)
    given |= {"approve": approve or config.approve, "only_tools": tuple(tools)}
    spec = _spec(driver, config, options, Path(cwd), given)
    _refuse_unenforceable_limits(driver, limits)
    _refuse_unpriced(driver, config, spec.model, limits)
    run_settings = _run_settings(driver, config, spec, approve, env)
    if agents.is_users_own(agent, config.agents):
        warnings += _withheld(driver, run_settings.environment)
    if config.workspace.tools if workspace_tools is None else workspace_tools:
        warnings = [*warnings, *_refused_tools(driver, servers or (), asked=bool(workspace_tools))]
        offered = "mcp" in driver.info.can
        run_settings = replace(run_settings, bench=bench(config, env) if offered else None)
    run_settings = replace(
        run_settings,
        limits=limits,
        tools=tuple(tools),
        answer=answer,
        functions=functions,
        callbacks=callbacks or Callbacks(),
    )
    return LaunchPlan(driver, spec, replace(run_settings, notices=_notices(warnings)))


def _separate(
    agent: Agent,
    servers: Mapping[str, Mapping[str, Any] | ToolServer],
) -> tuple[dict[str, Mapping[str, Any]], dict[str, ToolServer]]:
    """MCP servers that the agent starts itself, and those of Python functions."""
    plain = {name: server for name, server in servers.items() if isinstance(server, Mapping)}
    rest = {name: server for name, server in servers.items() if not isinstance(server, Mapping)}
    if rest and "mcp" not in agent.info.can:
        raise Unsupported(
            agent.info.name,
            "MCP servers, so it cannot call Python functions",
            hint="omit the functions in `servers`, or use another agent",
        )
    return plain, rest


def _spec(
    agent: Agent, config: Config, options: Mapping[str, Any], cwd: Path, given: dict[str, Any]
) -> SessionSpec:
    """The spec, with the agent's options in the config; raises `Unsupported`."""
    given.setdefault("flags", tuple(options.get("flags", ())))
    given["options"] = {**options, **given.get("options", {})}
    given.setdefault("accept_advisory", config.accept_advisory)
    spec = session_spec(cwd=cwd.resolve(), **given)
    refuse_unsupported(agent.info, spec)
    return spec


def external_client_plan(
    config: Config,
    client: Agent,
    *,
    cwd: Path,
    approve: str | None = None,
    isolation: str | None = None,
    request_timeout: float | None = None,
    env: Sequence[str] = (),
) -> LaunchPlan:
    """Builds the plan for an external MCP client, which is not started here and may stay idle."""
    check_options(
        {
            "cwd": cwd,
            "approve": approve,
            "isolation": isolation,
            "request_timeout": request_timeout,
            "env": env,
        }
    )
    spec = session_spec(cwd=cwd.resolve(), approve=approve or config.approve)
    run_settings = _run_settings(client, config, spec, approve, env)
    limits = TurnLimits(request=request_timeout or _max_wait(config, unattended=True))
    offered = replace(bench(config, env, isolation), survives=True)
    return LaunchPlan(client, spec, replace(run_settings, limits=limits, bench=offered))


def bench(
    config: Config, env: Sequence[str] = (), isolation: str | None = None
) -> WorkspaceToolSettings:
    """Workspace tool settings with the stricter isolation of the request and the config."""
    passed, given = asked_for(env)
    child = child_environment(os.environ, (), [*config.env.passed, *passed], given)
    requested = {config.workspace.isolation, isolation or config.workspace.isolation}
    strictest = next(level for level in ISOLATION if level in requested)
    return WorkspaceToolSettings(environment=child.variables, isolation=strictest)


def _refused_tools(agent: Agent, servers: Collection[str], *, asked: bool) -> list[str]:
    """Returns warnings, or raises, if an agent cannot be given tillerman's tools."""
    name = agent.info.name
    if SERVER in servers:
        raise UsageError(
            f"an MCP server is already named {SERVER!r}",
            hint=f"tillerman's tools use that name: choose another one in --mcp-config ({name})",
        )
    if "mcp" in agent.info.can:
        return []
    if asked:
        raise Unsupported(
            name,
            "MCP servers, so it cannot use tillerman's tools",
            hint="omit the workspace tools, or use another agent",
        )
    return [f"{name} does not support MCP servers, so it cannot use tillerman's tools"]


def _answer_format(agent: Agent, given: dict[str, Any], repair: bool) -> AnswerFormat | None:
    """Returns the required answer format; without schema support the prompt asks for it."""
    schema = given.get("output_schema")
    if schema is None:
        return None
    from tillerman.sessions.output_schema_check import check_schema

    check_schema(schema)
    if "schema" not in agent.info.can:
        del given["output_schema"]
    return AnswerFormat(schema, repair)


def _withheld(agent: Agent, passed: Mapping[str, str]) -> list[str]:
    """Warns about withheld credentials of a user-defined agent, whose variables are unknown."""
    names = [name for name in os.environ if is_credential(name) and name not in passed]
    if agent.info.variables or not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    shown = ", ".join(sorted(names)[:_NAMED])
    return [f"{agent.info.name} does not receive {shown}{more}: pass a variable with --env NAME"]


def _choose_model(
    agent: Agent, config: Config, options: Mapping[str, Any], given: dict[str, Any], alone: bool
) -> list[str]:
    """Sets the agent's native name of the model; returns warnings."""
    general = None if options.get("model") else config.model
    requested = given.get("model")
    model = requested or options.get("model") or config.model
    if not model or (not requested and "model" not in agent.info.can):
        return []
    from tillerman.config.model_table import load_models  # lazy: most runs name no model

    models = load_models(config.models)
    name = agent.info.name
    if model == general or not alone:
        theirs = models.whose(model)
        if theirs and name not in theirs:
            given.pop("model", None)
            return [f"{model} is a model of {', '.join(theirs)}: {name} uses its default model"]
    own = models.own(name, model)
    given["model"] = own.name
    return [own.warning] if own.warning else []


def _limits(
    config: Config,
    given: dict[str, Any],
    timeout: float | None,
    request: float,
    tokens: int | None,
    accept_unpriced: bool,
) -> TurnLimits:
    """Merges the limits of options and config, for the agent and for the session."""
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
        request=request,
        accept_unpriced=accept_unpriced,
    )


def _max_wait(config: Config, unattended: bool) -> float:
    """Shortens the request timeout if unattended: the user may answer elsewhere, or be a script."""
    if unattended and "limits.request" not in config.sources:
        return min(UNATTENDED, config.limits.request)
    return config.limits.request


def _refuse_unenforceable_limits(agent: Agent, limits: TurnLimits) -> None:
    """Refuses limits that cannot be enforced because the agent reports no usage."""
    can = agent.info.can
    unenforceable = {
        "--max-cost": limits.cost is not None and can.isdisjoint({"usage", "limits"}),
        "--max-tokens": limits.tokens is not None and "usage" not in can,
    }
    for feature in (name for name, is_unenforceable in unenforceable.items() if is_unenforceable):
        raise Unsupported(
            agent.info.name,
            f"{feature}: it reports no usage, so the limit cannot be enforced",
            hint="use --max-turns or --timeout instead",
        )


def _refuse_unpriced(agent: Agent, config: Config, model: str | None, limits: TurnLimits) -> None:
    """Refuses a cost limit without a price; a default model is checked after the start."""
    if limits.cost is None or limits.accept_unpriced or model is None:
        return
    if not agent.info.can.isdisjoint(REPORTS_COST):
        return
    from tillerman.config.model_table import load_models

    if load_models(config.models).price(model) is None:
        raise Unsupported(
            agent.info.name,
            f"--max-cost with {model}: it reports no cost, and no price is known",
            hint="set its price under [models] in the config, use --max-tokens, or continue "
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


def _run_settings(
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
            *secrets_of(_texts(spec.native.options)),
            *(_of_servers(spec) if spec.tools.servers else ()),
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


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in options.items() if isinstance(value, str)}


def _of_servers(spec: SessionSpec) -> list[tuple[str, str]]:
    from tillerman.supervision.secrets.mcp_server_secrets import (
        secrets_of_servers,  # lazy: few sessions have any
    )

    return secrets_of_servers(spec.tools.servers)
