"""Evaluates simple commands: resolves the function, builtin or program, and what that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tillerman.core.permission.shell.dangerous_variables import (
    configures,
    is_dynamic,
    is_harmless,
    is_lookup_table,
    is_prompt,
    steers,
)
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, Evaluator, either
from tillerman.core.permission.shell.expansion.arithmetic import is_code
from tillerman.core.permission.shell.expansion.substitution_output import is_sum
from tillerman.core.permission.shell.expansion.word_expansion import (
    PROCESS_FILE,
    WORKING,
    Expansion,
)
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    Effect,
    FileAccess,
    is_open,
    joined,
)
from tillerman.core.permission.shell.parsing.simple_command_parser import (
    DECLARATIONS,
    assignment_of,
)
from tillerman.core.permission.shell.parsing.syntax import (
    ArrayValue,
    Assignment,
    SimpleCommand,
    UnparsableCommand,
)
from tillerman.core.permission.shell.program_execution import (
    COMPUTED,
    CommandContext,
    ProgramExecution,
)
from tillerman.core.permission.shell.programs import Invocation
from tillerman.core.permission.shell.redirections import redirect
from tillerman.core.permission.shell.shell_programs import STARTING
from tillerman.core.permission.shell.shell_state import (
    NO_STDIN,
    UNKNOWN_ARGUMENTS,
    ShellState,
    Value,
    join,
)

_DEEPEST = 12  # nesting of scripts and of commands
_CODE = re.compile(r"[;&|<>()$`\n\\'\"{}*?\[#]")


class BuiltinCall(NamedTuple):
    """One call of a builtin."""

    execution: CommandExecution
    words: list[str]
    state: ShellState
    context: CommandContext
    assignments: tuple[tuple[str, Value | None, bool], ...] = ()  # of a declaration


class CommandExecution(ProgramExecution):
    def __init__(self, shell: Evaluator) -> None:
        from tillerman.core.permission.shell.builtins import builtin

        super().__init__(shell)
        self._builtin = builtin

    # -- simple commands -------------------------------------------------------------------------

    def simple(self, node: SimpleCommand, state: ShellState) -> EvaluationOutcome:
        expansion = Expansion(self.shell, state)
        computed = first_computed = False
        words: list[str] = []
        declared: list[tuple[str, Value | None, bool]] = []
        declares = self.shell.bash and bool(node.words) and node.words[0].plain in DECLARATIONS
        for at, word in enumerate(node.words):
            if declares and at and (assignment := assignment_of(word)):
                value = self._value(assignment, expansion)
                declared.append((assignment.name, value, assignment.append))
                words.append(f"{assignment.name}={value if isinstance(value, str) else HOLE}")
                computed |= expansion.computed
                continue
            fields = expansion.fields(word)
            if expansion.computed and any(is_open(one) or PROCESS_FILE in one for one in fields):
                computed = True
                first_computed |= not words
            words += fields
        span = None
        if self.shell.located and node.start >= 0 and node.contiguous and node.words:
            span = (node.start, node.end)
        assigned: list[tuple[str, Value]] = []
        for assignment in node.assignments:
            value = self._value(assignment, expansion)
            assigned.append((assignment.name, value))
            if words:  # some shells expand the next one before this is set
                expansion.state = expansion.state.assigned(assignment.name, HOLE)
            else:
                expansion.state = self.assign(
                    expansion.state,
                    assignment.name,
                    value,
                    number=is_sum(assignment.value),
                    made_up=expansion.computed,
                )
        if words and assigned:
            variables = {**expansion.state.variables}
            for name, _ in assigned:
                variables.pop(name, None)  # may be assigned twice
            variables |= {
                name: one for name, one in state.variables.items() if name not in variables
            }
            expansion.state = expansion.state.changed(variables=variables)
        before = expansion.state
        if not words:
            self.shell.printed = NO_STDIN
            found = redirect(self.shell, node.redirections, before)
            found = found.changed(stdin=before.stdin)
            if expansion.runs_commands or node.redirections:
                return either(found)
            return EvaluationOutcome(found, None)
        running = redirect(self.shell, node.redirections, before) if node.redirections else before
        if expansion.unsure:
            running = running.doubted("unknown arguments of the shell")
        outcome = self._prefixed(words, running, assigned, computed, first_computed, span, declared)
        if not node.redirections:
            return outcome
        self._record_output(node, before)
        if words == ["exec"]:
            return outcome
        return EvaluationOutcome(
            outcome.ok.changed(stdin=before.stdin) if outcome.ok else None,
            join(outcome.failed.changed(stdin=before.stdin) if outcome.failed else None, before),
        )

    def _record_output(self, node: SimpleCommand, state: ShellState) -> None:
        """Stores the text that the command printed to a file, in case the line runs that file."""
        printed = self.shell.printed
        written = any(one.operator.startswith(">") for one in node.redirections)
        if printed.text is None or not written:
            return
        for at, one in enumerate(self.findings.written):
            if one.text is None and at >= len(self.findings.written) - len(node.redirections):
                self.findings.written[at] = one._replace(text=printed.text)
        self.shell.printed = NO_STDIN

    def _value(self, assignment: Assignment, expansion: Expansion) -> Value:
        if assignment.subscript is not None:
            expansion.count(assignment.subscript)
            expansion.text(assignment.value)
            return HOLE
        value: Value
        match assignment.value.parts:
            case (ArrayValue() as array,):
                value = expansion.array(array)
            case _:
                value = expansion.text(assignment.value)
        if not assignment.append:
            return value
        old = expansion.state.variables.get(assignment.name)
        match old, value:
            case str(), str():
                return old + value
            case tuple(), tuple():
                return (*old, *value)
        return HOLE

    def _prefixed(
        self,
        words: list[str],
        state: ShellState,
        assigned: Sequence[tuple[str, Value]],
        computed: bool,
        first_computed: bool,
        span: tuple[int, int] | None,
        declared: Sequence[tuple[str, Value | None, bool]],
    ) -> EvaluationOutcome:
        context = CommandContext(span=span, computed=computed)
        if not assigned:
            return self._dispatch(words, state, context, first_computed, declared)
        running = state
        doubts: list[str] = []
        prefix: list[str] = []
        stays = words[0] in _SPECIAL or words[0] in state.functions or words[0] == "command"
        for name, value in assigned:
            text = value if isinstance(value, str) else HOLE
            running = self.assign(running, name, value, prefix=not stays)
            if steers(name) or is_lookup_table(name):
                doubts.append(f"{name} may change what the program does")
            elif not is_harmless(name, text):
                prefix.append(f"{name}={text}")
        running = running.changed(exported=running.exported | {name for name, _ in assigned})
        pairs = [f"{name}={value if isinstance(value, str) else HOLE}" for name, value in assigned]
        context = context._replace(
            others=(joined([*pairs, *words]),), doubts=tuple(doubts), prefix=tuple(prefix)
        )
        outcome = self._dispatch(words, running, context, first_computed, declared)
        return EvaluationOutcome(
            _restored(outcome.ok, state, assigned, stays),
            _restored(outcome.failed, state, assigned, stays),
        )

    def _dispatch(
        self,
        words: list[str],
        state: ShellState,
        context: CommandContext,
        first_computed: bool = False,
        declared: Sequence[tuple[str, Value | None, bool]] = (),
    ) -> EvaluationOutcome:
        self.shell.printed = NO_STDIN
        name = words[0]
        if state.aliases and name in state.aliases:
            value = state.aliases[name].split()
            rest = state.changed(aliases={k: v for k, v in state.aliases.items() if k != name})
            other = self._dispatch([*value, *words[1:]], rest, context._replace(span=None))
            plain = self._dispatch(words, rest, context, first_computed, declared)
            self.shell.printed = NO_STDIN  # unknown: either of them ran
            ok, failed = join(plain.ok, other.ok), join(plain.failed, other.failed)
            return EvaluationOutcome(
                ok.changed(aliases=state.aliases) if ok else None,
                failed.changed(aliases=state.aliases) if failed else None,
            )
        if name in state.functions:
            certain = state.functions[name][1]
            outcome = self._call(name, words, state, context)
            if certain and name not in _SPECIAL:
                return outcome
            other = self.builtin_or_program(words, state, context, declared)
            self.shell.printed = NO_STDIN
            return EvaluationOutcome(join(outcome.ok, other.ok), join(outcome.failed, other.failed))
        bare = name.replace(HOLE, "")
        if bare != name and (bare in state.functions or self._builtin(bare, self.shell.dialect)):
            return self._perhaps_builtin(bare, words, state, context)
        if is_open(name) and first_computed and "/" not in name:
            return self._computed(words, state, context)
        return self.builtin_or_program(words, state, context, declared)

    def _perhaps_builtin(
        self, bare: str, words: list[str], state: ShellState, context: CommandContext
    ) -> EvaluationOutcome:
        """Evaluates both cases: the unknown part of the name is empty, or not."""
        one = self._dispatch([bare, *words[1:]], state, context._replace(span=None))
        other = self._computed(words, state, context)
        self.shell.printed = NO_STDIN
        return EvaluationOutcome(join(one.ok, other.ok), join(one.failed, other.failed))

    def builtin_or_program(
        self,
        words: list[str],
        state: ShellState,
        context: CommandContext,
        declared: Sequence[tuple[str, Value | None, bool]] = (),
    ) -> EvaluationOutcome:
        handler = self._builtin(words[0], self.shell.dialect)
        if handler is None:
            self.program(words, state, context)
            return either(state)
        return handler(BuiltinCall(self, words, state, context, tuple(declared)))

    def _computed(
        self, words: list[str], state: ShellState, context: CommandContext
    ) -> EvaluationOutcome:
        """The line itself computes the name: it may be any builtin, too."""
        if any(is_open(word) or _CODE.search(word) for word in words[1:]):
            self.shell.unread("the command is only known at run time")
        self.program(words, state, context)
        lost = state.lost()
        return either(join(state, lost) or lost)

    def _call(
        self, name: str, words: list[str], state: ShellState, context: CommandContext
    ) -> EvaluationOutcome:
        shell = self.shell
        bodies, _ = state.functions[name]
        shell.called.add(name)
        shell.arithmetic.assign("@", " ".join(words[1:]), made_up=context.computed)
        times = shell.calls.count(name)
        if times >= 2 or len(shell.calls) > _DEEPEST:
            if times < 2:
                shell.unread("too many nested function calls")
            return either(state.lost())
        inside = state.lost() if times else state
        inside = inside.changed(positional=tuple(words[1:]) if not times else UNKNOWN_ARGUMENTS)
        shell.calls.append(name)
        shell.locals.append(set())
        escapes, shell.escapes = shell.escapes, []
        located, shell.located = shell.located, False
        readings, shell.readings = shell.readings, (*shell.readings, joined(words))
        ok: ShellState | None = None
        failed: ShellState | None = None
        for body in bodies:
            outcome = shell.evaluate(body.body, inside)
            ok, failed = join(ok, outcome.ok), join(failed, outcome.failed)
        for found in shell.escapes:
            ok, failed = join(ok, found), join(failed, found)
        shell.escapes = escapes
        shell.readings = readings
        shell.located = located
        names = shell.locals.pop()
        shell.calls.pop()
        shell.printed = NO_STDIN

        def left(found: ShellState | None) -> ShellState | None:
            if found is None:
                return None
            variables = dict(found.variables)
            for one in names:
                variables.pop(one, None)
                if one in state.variables:
                    variables[one] = state.variables[one]
                elif one in WORKING:  # `cd` changed the local one
                    variables[one] = HOLE
            return found.changed(variables=variables, positional=state.positional)

        return EvaluationOutcome(left(ok), left(failed))

    # -- variables -------------------------------------------------------------------------------

    def assign(
        self,
        state: ShellState,
        name: str,
        value: Value,
        *,
        prefix: bool = False,
        number: bool = False,
        made_up: bool = False,
    ) -> ShellState:
        """`prefix`: for one command only, whose doubts are recorded separately."""
        text = value if isinstance(value, str) else HOLE
        if not number:
            plain = value if isinstance(value, str) else " ".join(value)
            made_up = made_up and HOLE in plain
            self.shell.arithmetic.assign(name, plain, made_up=made_up)
        if is_lookup_table(name) and not prefix:
            self.shell.unread(f"{name} changes which command runs")
        elif is_prompt(name) and text:
            self.script(text, state.lost())
            if is_open(text) or _CODE.search(text):
                self.shell.unread(f"{name} contains commands that the shell runs")
        elif name in STARTING and is_code(text):
            self.shell.unread(f"{name} is expanded by the shells that are started")
        elif name == "HISTFILE":
            self.findings.access(FileAccess(text, "write", directories=state.directories))
        known: Value = HOLE if is_dynamic(name) else value
        changes: dict[str, object] = {"variables": {**state.variables, name: known}}
        if "allexport" in state.options:
            changes["exported"] = state.exported | {name}
        if name == "GLOBIGNORE":
            changes["options"] = state.options | {"dotglob"}
        elif name == "OLDPWD":
            changes["previous"] = None
        elif name == "DIRSTACK":
            changes["stack"] = None
        elif name == "path" and isinstance(value, tuple):
            name = "PATH"  # zsh
        if not prefix and steers(name):
            reason = f"{name} changes which program runs, or what it does"
            changes["doubts"] = tuple(dict.fromkeys((*state.doubts, reason)))
        elif not prefix and configures(name):
            changes["environment"] = tuple(dict.fromkeys((*state.environment, f"{name}={text}")))
        return state.changed(**changes)

    # -- used by builtins ------------------------------------------------------------------------

    def script(self, text: str, state: ShellState, *, computed: bool = False) -> EvaluationOutcome:
        """Evaluates text that this shell itself runs."""
        shell = self.shell
        if shell.depth > _DEEPEST:
            raise UnparsableCommand("too many levels of nesting")
        located, doubts = shell.located, shell.doubts
        shell.located = False
        shell.depth += 1
        if is_open(text):
            shell.doubts = (*doubts, COMPUTED)
            if computed:
                shell.unread(COMPUTED)
        try:
            outcome = shell.read(text, state)
        except UnparsableCommand as error:
            if shell.bash:
                shell.unread(str(error))
            outcome = either(state.lost())
        finally:
            shell.located, shell.doubts = located, doubts
            shell.depth -= 1
        if is_open(text):
            return either(join(state, state.lost()) or state)
        return outcome

    def note(
        self,
        call: BuiltinCall,
        effect: Effect = "none",
        accesses: tuple[FileAccess, ...] = (),
        doubts: tuple[str, ...] = (),
    ) -> int:
        """Records a builtin as one of the commands."""
        found = Invocation(
            joined(call.words), effect=effect, row=call.words[0], accesses=accesses, doubts=doubts
        )
        return self.add(call.words, found, call.state, call.context, builtin=True)


_SPECIAL = frozenset({
    ":", ".", "source", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return",
    "set", "shift", "times", "trap", "unset",
})  # fmt: skip


def _restored(
    found: ShellState | None,
    before: ShellState,
    assigned: Sequence[tuple[str, Value]],
    stays: bool,
) -> ShellState | None:
    """The state without assignments for one command; `stays`: in some shells they remain."""
    if found is None:
        return None
    variables = dict(found.variables)
    for name, _ in assigned:
        variables.pop(name, None)
        if name in before.variables:
            variables[name] = before.variables[name]
        elif name in WORKING:  # `cd` changed the one for this command
            variables[name] = HOLE
    restored = found.changed(
        variables=variables, exported=before.exported | found.exported - {n for n, _ in assigned}
    )
    if not stays:
        return restored
    doubts = tuple(
        f"{name} changes which program runs, or what it does"
        for name, _ in assigned
        if steers(name)
    )
    kept = found.doubted(*doubts) if doubts else found
    return join(restored, kept)
