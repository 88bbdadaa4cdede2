"""Bodies and queries of the API that are not structs of the log or the store.

An unknown field is an error: a misspelled restriction must not mean "no restriction".
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tillerman.core.agent import File, Mode
from tillerman.core.agent_admin import Account, Installed
from tillerman.core.errors import UsageError
from tillerman.core.events import Answer, FileChange, PermissionRequested, QuestionAsked
from tillerman.core.session_options import Preset, Remember, WhenBusy
from tillerman.core.workspace_process import Mode as ProcessMode
from tillerman.core.workspace_process import Status
from tillerman.surfaces import prompt_files
from tillerman.surfaces.server.tokens import Scope
from tillerman.workspace.branch.pull_request import PullRequest, PullRequestUnavailable

Count = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=1e7)]
Text = Annotated[str, Meta(min_length=1)]

LINGER = 30.0  # seconds that an agent is kept after its last turn


class PromptFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is attached to a prompt; `data` is base64."""

    name: Text
    data: bytes
    mime: str = ""  # default: by name and content

    def file(self) -> File:
        if len(self.data) > prompt_files.ATTACHMENT_CAP:
            cap = prompt_files.ATTACHMENT_CAP // 2**20
            raise UsageError(f"{self.name}: larger than {cap} MB", hint="attach a smaller file")
        name = Path(self.name).name or "file"
        return File(name, self.mime or prompt_files.mime_of(name, self.data), self.data)


class SessionOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a session, as `tillerman run` has them. Null: those of the config."""

    approve: Preset | None = None
    accept_advisory: bool | None = None
    mode: Mode | None = None
    model: Text | None = None
    effort: Text | None = None
    system: str | None = None
    env: tuple[str, ...] = ()  # NAME=VALUE, or NAME of a variable of the service
    folders: tuple[str, ...] = ()
    servers: dict[str, dict[str, Any]] = {}  # MCP servers by name
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None
    repair_output: bool | None = None
    max_turns: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    max_cost: Annotated[float, Meta(gt=0, le=1e7)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    accept_unpriced: bool | None = None
    timeout: Seconds | None = None
    request_timeout: Seconds | None = None
    workspace_tools: bool | None = None
    linger: Annotated[float, Meta(ge=0, le=3600)] = LINGER  # keep the agent after its last turn

    def given(self) -> dict[str, Any]:
        """The options that are not the defaults, as the harness takes them."""
        said = {name: getattr(self, name) for name in SessionOptions.__struct_fields__}
        del said["linger"]
        said["folders"] = tuple(Path(folder) for folder in self.folders)
        return {name: value for name, value in said.items() if value not in (None, (), {})}


class StartSession(SessionOptions, frozen=True, kw_only=True):
    agent: Text | None = None  # an agent, a profile, or several: one,two
    cwd: Text  # the workspace: an absolute path on the machine of the service
    title: str | None = None
    prompt: Text | None = None  # null: the session waits for its first prompt
    files: tuple[PromptFile, ...] = ()


class PromptBody(SessionOptions, frozen=True, kw_only=True):
    """A prompt. The options count only if no process runs the session, so that it is resumed."""

    text: Text
    files: tuple[PromptFile, ...] = ()
    when_busy: WhenBusy = "queue"


class PromptSent(Struct, frozen=True):
    session: str
    since: int  # the entries of the turn come after this number


class ChangeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    model: Text | None = None
    mode: Mode | None = None
    approve: Preset | None = None


class ChangeSession(Struct, frozen=True, forbid_unknown_fields=True):
    title: Text


class ForkSession(Struct, frozen=True, forbid_unknown_fields=True):
    up_to_seq: Annotated[int, Meta(ge=1, le=2**53)] | None = None  # default: everything


class HandOff(SessionOptions, frozen=True, kw_only=True):
    agent: Text  # that continues
    prompt: Text | None = None


class SessionListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: str | None = None
    agent: str | None = None
    status: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    offset: Count = 0


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    q: str
    session: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class ExportQuery(Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["markdown", "html", "jsonl"] = "markdown"


class SinceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    since: Count = 0


class EntriesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    since: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class OpenRequestDocument(Struct, frozen=True):
    session: str
    opened_at: str
    request: PermissionRequested | QuestionAsked
    idle: bool  # no process runs its session: the answer is stored until it resumes


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer; `seq` is the entry that was shown, and no other request gets the answer."""

    option: Text  # the id of an option; allow or deny where there are no others
    note: str | None = None
    input: dict[str, Any] | None = None  # changed input, with an approval
    answers: dict[str, str] | None = None  # question -> chosen label or free text
    remember: Remember | None = None
    seq: Count | None = None

    def answer(self) -> Answer:
        return Answer(self.option, self.note, self.input, self.answers, self.remember)


class RuleQuery(Struct, frozen=True, forbid_unknown_fields=True):
    told: Text


class ProjectQuery(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: Text


class ForgetProjectRule(Struct, frozen=True, forbid_unknown_fields=True):
    cwd: Text
    number: Annotated[int, Meta(ge=1, le=2**31)]  # as the list has them, from 1


class RememberedRule(Struct, frozen=True):
    told: str  # for people
    rule: dict[str, Any]
    at: str | None = None


class AgentsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    fresh: bool = False  # ask the agents again, instead of giving what is some seconds old


class AgentDocument(Struct, frozen=True):
    """An agent with its state, as `tillerman agents --json` gives it."""

    name: str
    title: str
    can: tuple[str, ...]
    install: str
    tested: tuple[str, str] | None
    installed: Installed | None
    account: Account | None
    problem: str
    notice: str
    state: str
    ready: bool


class AddServer(Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    config: dict[str, Any]  # command, args, env; or type, url, headers


class SwitchServer(Struct, frozen=True, forbid_unknown_fields=True):
    on: bool


class RepositoryStatus(Struct, frozen=True):
    """The branch of a session's folder and its next step, as `repo status --json` gives it."""

    text: str
    repository: str
    top: str
    remote: str | None
    branch: str | None
    commit: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    changed: int
    untracked: int
    conflicted: int
    conflicts: tuple[str, ...]
    more: bool
    status: str
    color: str
    action: str
    skill: str
    pull_request: PullRequest | None
    no_news: PullRequestUnavailable | None


class ProcessQuery(Struct, frozen=True, forbid_unknown_fields=True):
    session: str | None = None
    all: bool = False  # also those that ended in the last day


class ProcessDocument(Struct, frozen=True, kw_only=True):
    """A workspace process, as `tillerman ps --json` gives it."""

    id: str
    session: str
    command: str
    cwd: str
    mode: ProcessMode
    isolation: str
    status: Status
    pid: int | None
    started: str | None
    boot: str | None
    code: int | None
    signal: int | None
    began_at: str
    ended_at: str | None
    stdout_bytes: int
    stderr_bytes: int
    stdout_kept: int
    stderr_kept: int
    why: str | None
    owner: str | None
    folder: str


class OutputQuery(Struct, frozen=True, forbid_unknown_fields=True):
    stream: Literal["stdout", "stderr"] = "stdout"
    offset: Annotated[int, Meta(ge=0, le=2**53)] | None = None  # null: the end of the output
    limit: Annotated[int, Meta(ge=1, le=1048576)] = 65536  # bytes


class ProcessOutput(Struct, frozen=True):
    text: str  # bytes that are not UTF-8 are replaced
    offset: int  # where it begins, in bytes
    next: int  # the offset of what follows
    size: int


class TurnDiff(Struct, frozen=True):
    call_id: str
    path: str
    patch: str


class TurnDiffs(Struct, frozen=True):
    """What a turn changed: files on disk, and the edits that the agent reported."""

    session: str
    turn: int
    files: tuple[FileChange, ...]
    files_left_out: int
    diffs: tuple[TurnDiff, ...]


class Health(Struct, frozen=True):
    version: str
    pid: int
    started_at: str
    sessions: int  # that the service runs
    working: int  # of these, with a turn
    streams: int
    warm_agents: int  # started, and in no session yet


class CreateLink(Struct, frozen=True, forbid_unknown_fields=True):
    scope: Scope = "drive"


class SignInLink(Struct, frozen=True):
    """A one-time link that signs in a browser."""

    url: str
    scope: Scope
    seconds: float  # until it expires


class CreateToken(Struct, frozen=True, forbid_unknown_fields=True):
    scope: Scope
    name: str = ""
    days: Annotated[float, Meta(gt=0, le=3650)] | None = None


class TokenDocument(Struct, frozen=True):
    id: str
    name: str
    kind: str
    scope: Scope
    created_at: str
    expires_at: str | None


class NewToken(Struct, frozen=True):
    token: str  # shown only here
    id: str
    scope: Scope
    expires_at: str | None


class WhoAmI(Struct, frozen=True):
    name: str
    scope: Scope
    csrf: str | None = None  # of a browser: to be sent as X-CSRF-Token
