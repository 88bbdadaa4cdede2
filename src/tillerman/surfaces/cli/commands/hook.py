"""`tillerman hook`: run by an installed hook; decides one tool call of an agent by the policy."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.agent_files import PROJECT_VARIABLES
from tillerman.hooks.dialects import dialect_of
from tillerman.hooks.protocol import HookReply, refusal
from tillerman.surfaces.cli.preconditions import check_current_folder

if TYPE_CHECKING:
    from tillerman.core.permission import DecisionContext, Policy
    from tillerman.hooks.dialects.payload_codec import HookEvent

LONGEST = 20  # seconds; must be below the CLI's hook timeout, after which the call runs


def hook(options: Namespace) -> int:
    """Prints the decision. Any error results in a denial."""
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(LONGEST)
    try:
        answer = _answer(options)
    except Exception as error:
        answer = refusal(f"the policy could not be evaluated: {getattr(error, 'message', error)}")
    sys.stderr.buffer.write(answer.stderr)
    sys.stderr.flush()
    sys.stdout.buffer.write(answer.stdout)
    sys.stdout.flush()
    return answer.exit


def _answer(options: Namespace) -> HookReply:
    from tillerman.hooks.policy_only_answer import decide_hook

    payload = sys.stdin.buffer.read()
    dialect = dialect_of(options.agent, payload)
    event = dialect.read(options.event, payload)
    project, cwd = _places(options.project, event)
    policy = _policy(project, is_outside=not cwd.is_relative_to(project))
    return decide_hook(dialect, event, policy, _context(options.agent, project, cwd))


def _policy(project: Path, *, is_outside: bool) -> Policy:
    from tillerman.config import load
    from tillerman.core.permission import Policy, Rule
    from tillerman.sessions.permissions.project_rules import ProjectRules

    config = load(project)
    tightening = config.tightening
    if is_outside:
        outside = Rule("hook.outside", "ask", "the agent works outside the project")
        tightening = (*tightening, outside)
    policy = Policy.preset(config.approve, rules=config.rules, tightening=tightening)
    return policy.remembering(ProjectRules.of(config.paths, project).rules())


def _context(agent: str, project: Path, cwd: Path) -> DecisionContext:
    from tillerman.core.permission import DecisionContext
    from tillerman.workspace.files.policy_lookup import DiskFiles, resolved

    return DecisionContext(
        cwd=project,
        base=cwd,
        home=Path.home(),
        resolve=resolved,
        agent=agent,
        files=DiskFiles(),
    )


def _places(named: Path | None, event: HookEvent) -> tuple[Path, Path]:
    """The project root and the agent's working directory."""
    folder = str(getattr(event, "cwd", "") or next(iter(getattr(event, "workspace_roots", ())), ""))
    variables = map(os.environ.get, sorted(PROJECT_VARIABLES))
    by_variable = next(filter(None, variables), "")
    project = named or Path(by_variable or folder or ".")
    if not project.is_absolute():
        check_current_folder()
    project = Path(os.path.realpath(project))
    return project, Path(os.path.realpath(project / folder))


def _too_late(number: int, frame: object) -> None:
    os.write(2, b"tillerman: the policy took too long to ask\n")
    os._exit(2)
