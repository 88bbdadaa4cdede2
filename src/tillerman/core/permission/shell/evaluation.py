"""Abstract interpreter of shell syntax trees: finds every command that may run, in every state.

Each node yields two states: the one after success and the one after failure. None means that it
never occurs; commands after such a point are still evaluated, without changing the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tillerman.core.permission.shell.expansion.word_expansion import Expansion
from tillerman.core.permission.shell.findings import Findings
from tillerman.core.permission.shell.parsed_script import HOLE, is_open
from tillerman.core.permission.shell.parsing.dialects import is_read_differently
from tillerman.core.permission.shell.parsing.parser import ShellParser
from tillerman.core.permission.shell.parsing.syntax import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    BackgroundList,
    CaseClause,
    Condition,
    Coprocess,
    Dialect,
    For,
    FunctionDefinition,
    If,
    Literal,
    Loop,
    Node,
    Pipeline,
    Redirected,
    Script,
    SimpleCommand,
    Subshell,
    UnparsableCommand,
)
from tillerman.core.permission.shell.redirections import redirect
from tillerman.core.permission.shell.shell_state import (
    NO_STDIN,
    UNKNOWN_ARGUMENTS,
    ShellState,
    join,
)

_START = ("",)
_MOST_ROUNDS = 4
_MOST_ITEMS = 8
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_CALLED = frozenset({
    "chpwd", "precmd", "preexec", "command_not_found_handle", "command_not_found_handler",
})  # fmt: skip
_MOST_CHARACTERS = 300_000  # of nested scripts
_SCRIPT_COST = 500


class EvaluationOutcome(NamedTuple):
    ok: ShellState | None
    failed: ShellState | None

    @property
    def after(self) -> ShellState | None:
        return join(self.ok, self.failed)


def either(state: ShellState) -> EvaluationOutcome:
    """The outcome of a node whose success is unknown."""
    return EvaluationOutcome(state, state)


class Evaluator:
    """Evaluates syntax trees; `readings`: texts of the outer commands, for rules that deny them."""

    def __init__(
        self,
        dialect: Dialect,
        findings: Findings,
        *,
        depth: int = 0,
        inner: bool = False,
        readings: tuple[str, ...] = (),
        doubts: tuple[str, ...] = (),
    ) -> None:
        from tillerman.core.permission.shell.command_execution import CommandExecution

        self.dialect: Dialect = dialect
        self.bash = dialect == "bash"
        self.findings = findings
        self.arithmetic = findings.arithmetic
        self.depth = depth
        self.inner = inner
        self.readings = readings
        self.doubts = doubts
        self.located = depth == 0
        self.printed = NO_STDIN  # output of the last simple command
        self.escapes: list[ShellState] = []  # states at break, continue and return
        self.locals: list[set[str]] = []  # of each active function call
        self.calls: list[str] = []
        self.called: set[str] = set()
        self.defined: list[tuple[FunctionDefinition, ShellState]] = []
        self.traps: list[tuple[str, ShellState]] = []
        self._loops = 0
        self._commands = CommandExecution(self)

    @property
    def in_loop(self) -> bool:
        return self._loops > 0

    def unread(self, reason: str) -> None:
        self.findings.unread(reason)

    def assign(self, state: ShellState, name: str, value: str) -> ShellState:
        return self._commands.assign(state, name, value)

    # -- texts -----------------------------------------------------------------------------------

    def read(self, text: str, state: ShellState) -> EvaluationOutcome:
        """Evaluates text line by line, as a shell does. Stops at a syntax error."""
        self.findings.characters += len(text) + _SCRIPT_COST
        if self.depth and self.findings.characters > _MOST_CHARACTERS:
            raise UnparsableCommand("too many nested commands")
        self.findings.dialects_differ |= is_read_differently(text)
        parser = ShellParser(text, self.dialect, depth=self.depth, located=self.located)
        outcome = EvaluationOutcome(state, None)
        live = state
        try:
            while True:
                live = outcome.after or live
                parser.extglob = self.bash and "extglob" in live.options
                parser.posix_mode = self.bash and live.may_be_posix
                script = parser.next_command()
                if script is None:
                    break
                result = self.evaluate(script, live)
                outcome = result if outcome.after is not None else outcome
        except UnparsableCommand as error:
            if parser.deferred:
                self.unread(str(error))
            raise
        finally:
            for problem in parser.problems:
                self.unread(problem)
        return outcome

    def finish(self) -> None:
        """Evaluates what runs later: traps, and functions that were not called."""
        anywhere = tuple(self.findings.directories)
        for script, state in self.traps:
            later = state.changed(directories=anywhere, positional=UNKNOWN_ARGUMENTS)
            self._commands.script(script, later)
        self.located = False
        for definition, state in self.defined:
            if definition.name not in self.called:
                self.evaluate(definition.body, state.changed(positional=UNKNOWN_ARGUMENTS))

    def evaluate(self, node: Node, state: ShellState) -> EvaluationOutcome:
        self.findings.step()
        found: EvaluationOutcome = _CASES[type(node)](self, node, state)
        for after in found:
            if after is not None and after.directories != _START:
                self.findings.directories.update(after.directories)
        return found

    def _simple(self, node: SimpleCommand, state: ShellState) -> EvaluationOutcome:
        return self._commands.simple(node, state)

    # -- for words -------------------------------------------------------------------------------

    def substitute(self, script: Script, state: ShellState) -> str:
        """The output of a substitution; HOLE if it is unknown."""
        escapes, self.escapes = self.escapes, []
        located, self.located = self.located, False
        self.printed = NO_STDIN
        self.evaluate(script, state)
        self.escapes, self.located = escapes, located
        printed, self.printed = self.printed, NO_STDIN
        single = len(script.commands) == 1 and isinstance(script.commands[0], SimpleCommand)
        if single and printed.certain and printed.text is not None:
            return printed.text.rstrip("\n")
        return HOLE

    def substituted(self, text: str) -> None:
        self.findings.substituted.append(text)

    def run_in_shell(self, script: Script, state: ShellState) -> ShellState:
        return self.evaluate(script, state).after or state

    # -- lists -----------------------------------------------------------------------------------

    def _script(self, node: Script, state: ShellState) -> EvaluationOutcome:
        outcome = EvaluationOutcome(state, None)
        live: ShellState | None = state
        for command in node.commands:
            live = outcome.after
            if live is None:
                self.evaluate(command, state)
                continue
            state = live
            outcome = self.evaluate(command, live)
        return outcome

    def _and_or(self, node: AndOr, state: ShellState) -> EvaluationOutcome:
        left = self.evaluate(node.left, state)
        enters = left.ok if node.operator == "&&" else left.failed
        right = self.evaluate(node.right, enters or left.after or state)
        if enters is None:
            return left
        if node.operator == "&&":
            return EvaluationOutcome(right.ok, join(left.failed, right.failed))
        return EvaluationOutcome(join(left.ok, right.ok), right.failed)

    def _pipeline(self, node: Pipeline, state: ShellState) -> EvaluationOutcome:
        if len(node.commands) <= 1:
            outcome = self.evaluate(node.commands[0], state) if node.commands else either(state)
        else:
            outcome = self._piped(node, state)
        return EvaluationOutcome(outcome.failed, outcome.ok) if node.negated else outcome

    def _piped(self, node: Pipeline, state: ShellState) -> EvaluationOutcome:
        """Evaluates each part in a subshell; some shells run the last part in the shell itself."""
        escapes, self.escapes = self.escapes, []
        stdin = state.stdin
        last: ShellState | None = state
        for command in node.commands:
            self.printed = NO_STDIN
            last = self.evaluate(command, state.changed(stdin=stdin)).after
            stdin = self.printed if isinstance(command, SimpleCommand) else NO_STDIN
        self.escapes = escapes
        self.printed = NO_STDIN
        if last is None:
            return either(state)
        return either(join(state, last.changed(stdin=state.stdin)) or state)

    def _apart(self, node: Node, state: ShellState) -> EvaluationOutcome:
        """Evaluates in a separate shell: its state changes have no effect outside."""
        escapes, self.escapes = self.escapes, []
        outcome = self.evaluate(node, state)
        self.escapes = escapes
        return outcome

    def _subshell(self, node: Subshell, state: ShellState) -> EvaluationOutcome:
        located, self.located = self.located, False
        outcome = self._apart(node.body, state)
        self.located = located
        if outcome.after is None:
            return either(state)
        return EvaluationOutcome(state if outcome.ok else None, state if outcome.failed else None)

    def _background(self, node: BackgroundList, state: ShellState) -> EvaluationOutcome:
        self._apart(node.body, state)
        return EvaluationOutcome(state, None)

    def _coprocess(self, node: Coprocess, state: ShellState) -> EvaluationOutcome:
        self._apart(node.body, state.changed(stdin=NO_STDIN))
        return either(state.assigned(node.name or "COPROC", HOLE))

    def _redirected(self, node: Redirected, state: ShellState) -> EvaluationOutcome:
        inside = redirect(self, node.redirections, state)
        outcome = self.evaluate(node.body, inside)
        self.printed = NO_STDIN

        def outside(found: ShellState | None) -> ShellState | None:
            return found.changed(stdin=state.stdin) if found else None

        return EvaluationOutcome(outside(outcome.ok), join(outside(outcome.failed), state))

    # -- conditions and loops --------------------------------------------------------------------

    def _if(self, node: If, state: ShellState) -> EvaluationOutcome:
        condition = self.evaluate(node.condition, state)
        then = self.evaluate(node.then, condition.ok or state)
        if condition.ok is None:
            then = EvaluationOutcome(None, None)
        otherwise = EvaluationOutcome(condition.failed, None)
        if node.otherwise is not None:
            otherwise = self.evaluate(node.otherwise, condition.failed or state)
            if condition.failed is None:
                otherwise = EvaluationOutcome(None, None)
        return EvaluationOutcome(join(then.ok, otherwise.ok), join(then.failed, otherwise.failed))

    def _loop(self, node: Loop, state: ShellState) -> EvaluationOutcome:
        def body(entry: ShellState) -> tuple[ShellState | None, ShellState | None]:
            condition = self.evaluate(node.condition, entry)
            enters = condition.failed if node.until else condition.ok
            leaves = condition.ok if node.until else condition.failed
            after = self.evaluate(node.body, enters or entry).after
            return (after if enters else None), leaves

        return self._repeat(body, state)

    def _repeat(
        self,
        body: Callable[[ShellState], tuple[ShellState | None, ShellState | None]],
        state: ShellState,
    ) -> EvaluationOutcome:
        """`body` returns the state after an iteration, and the one in which the loop ends."""
        escaped = len(self.escapes)
        self._loops += 1
        leaves: ShellState | None = None
        for round in range(_MOST_ROUNDS):
            after, left = body(state)
            leaves = join(leaves, left)
            for found in self.escapes[escaped:]:
                after = join(after, found)
                leaves = join(leaves, found)
            following = join(state, after) or state
            if round:
                following = following.widened(state)
            if following.key() == state.key():
                break
            state = following
        self._loops -= 1
        if leaves is None:
            return EvaluationOutcome(None, None)
        return either(leaves)

    def _for(self, node: For, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self, state)
        if node.words is None:
            items = list(state.positional) if state.positional is not None else [HOLE]
        else:
            items = [field for word in node.words for field in expansion.fields(word)]
        state = expansion.state
        name = node.name.plain or ""
        few = len(items) <= _MOST_ITEMS and self._loops < 2
        if not few or node.select or any(map(is_open, items)):
            values = dict.fromkeys(items) if few and not node.select else {HOLE: None}
            for item in items:
                self.arithmetic.assign(name, item)

            def body(entry: ShellState) -> tuple[ShellState | None, ShellState | None]:
                after: ShellState | None = None
                for value in values:
                    begun = self.assign(entry, name, value)
                    after = join(after, self.evaluate(node.body, begun).after)
                return after, entry

            return self._repeat(body, state)
        return self._each(node, name, items, state)

    def _each(self, node: For, name: str, items: list[str], state: ShellState) -> EvaluationOutcome:
        escaped = len(self.escapes)
        self._loops += 1
        live = state
        for item in items:
            after = self.evaluate(node.body, self.assign(live, name, item)).after
            for found in self.escapes[escaped:]:
                after = join(after, found)
            live = after or live
        if not items:
            self.evaluate(node.body, self.assign(live, name, HOLE))
        self._loops -= 1
        return either(live if items else state)

    def _arithmetic_for(self, node: ArithmeticFor, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self, state)
        expansion.arithmetic(node.header)

        def body(entry: ShellState) -> tuple[ShellState | None, ShellState | None]:
            return self.evaluate(node.body, entry).after, entry

        return self._repeat(body, expansion.state)

    def _case(self, node: CaseClause, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self, state)
        expansion.text(node.subject)
        for item in node.items:
            for pattern in item.patterns:
                expansion.text(pattern)
        state = expansion.state
        found = EvaluationOutcome(state, None)
        falls: ShellState | None = None
        for item in node.items:
            outcome = self.evaluate(item.body, join(state, falls) or state)
            falls = outcome.after if item.terminator in (";&", ";;&") else None
            found = EvaluationOutcome(
                join(found.ok, outcome.ok), join(found.failed, outcome.failed)
            )
        return found

    def _condition(self, node: Condition, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self, state)
        texts = [expansion.text(word) for word in node.words]
        plain = [word.plain or "" for word in node.words]
        for at, sign in enumerate(plain):
            if sign in _COMPARES:
                for operand in node.words[max(0, at - 1) : at + 2]:
                    if operand.plain not in _COMPARES:
                        expansion.count(operand)
            elif sign == "-v" and at + 1 < len(node.words):
                expansion.count(node.words[at + 1])
        evaluates = any(sign in _COMPARES or sign in ("-v", "-R") for sign in plain)
        literal = [
            part.text for word in node.words for part in word.parts if isinstance(part, Literal)
        ]
        if evaluates and any("$(" in text or "`" in text for text in [*texts, *literal]):
            self.unread("a condition that evaluates text as commands")
        return either(expansion.state)

    def _arithmetic_command(self, node: ArithmeticCommand, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self, state)
        expansion.arithmetic(node.body)
        return either(expansion.state)

    def _define(self, node: FunctionDefinition, state: ShellState) -> EvaluationOutcome:
        if node.name.startswith("TRAP") or node.name in _CALLED:
            self.unread(f"{node.name} is called by some shells themselves")
        self.arithmetic.assign("@", HOLE)
        functions = {**state.functions, node.name: ((node,), True)}
        state = state.changed(functions=functions)
        self.defined.append((node, state))
        return EvaluationOutcome(state, None)


_CASES: dict[type, Callable[[Any, Any, ShellState], EvaluationOutcome]] = {
    SimpleCommand: Evaluator._simple,
    Script: Evaluator._script,
    AndOr: Evaluator._and_or,
    Pipeline: Evaluator._pipeline,
    Redirected: Evaluator._redirected,
    Subshell: Evaluator._subshell,
    BackgroundList: Evaluator._background,
    Coprocess: Evaluator._coprocess,
    If: Evaluator._if,
    Loop: Evaluator._loop,
    For: Evaluator._for,
    ArithmeticFor: Evaluator._arithmetic_for,
    CaseClause: Evaluator._case,
    FunctionDefinition: Evaluator._define,
    Condition: Evaluator._condition,
    ArithmeticCommand: Evaluator._arithmetic_command,
}
