"""The stdio layer with real child processes: however they end, a turn ends once, and in time."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

import pytest

from tests import RECORDINGS
from tests.agents.listening import listening
from tests.agents.plain import ASKS, LONG_LIVED, PER_TURN, python, shell
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.conversation import reconcile
from tillerman.core.agent import AgentInfo, Exit, Prompt, SessionSpec
from tillerman.core.errors import AgentNotInstalled, SessionBusy, Unsupported
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    AgentStarted,
    MessageChunk,
    Notice,
    TurnEnded,
    TurnStarted,
    Unrecognized,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch
from tillerman.testing.recording_player import receive
from tillerman.testing.test_host import PlainHost

DONE = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")
SAID_SO = TurnEnded(reason="failed", failure=Failure(kind="agent_failed", message="it said so"))


def crashed(how: str, last: str = "") -> TurnEnded:
    return TurnEnded(
        reason="failed",
        failure=Failure(
            kind="agent_crashed",
            message=f"the agent exited without a result ({how}){last}",
            hint="try again; `tillerman sessions show ID --json` shows its last output",
        ),
    )


BROKEN = TurnEnded(
    reason="failed",
    failure=Failure(
        kind="stream_broken",
        message="the agent exited without a result (exit code 0)",
        hint="try again; `tillerman sessions show ID --json` shows its last output",
    ),
)


def bad_exit(how: str) -> TurnEnded:
    message = f"the agent reported success, then exited with {how}"
    return TurnEnded(reason="failed", failure=Failure(kind="agent_crashed", message=message))


def alive(folder: Path) -> list[str]:
    """Command lines of the processes whose working directory is this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                found.append((entry / "cmdline").read_text().replace("\0", " ").strip())
        except OSError:
            continue
    return found


# -- status from two sources -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "exit", "cancelled", "end"),
    [
        (DONE, Exit(0, None), False, DONE),
        (DONE, Exit(3, None), False, bad_exit("exit code 3")),
        (DONE, Exit(None, 11), False, bad_exit("signal 11")),
        (SAID_SO, Exit(0, None), False, SAID_SO),
        (SAID_SO, Exit(1, None), False, SAID_SO),
        (None, Exit(0, None), False, BROKEN),
        (None, Exit(1, None), False, crashed("exit code 1")),
        (None, Exit(None, 9), False, crashed("signal 9")),
        (CANCELLED, Exit(0, None), False, CANCELLED),
        (None, Exit(None, 15), True, CANCELLED),
        (None, Exit(0, None), True, CANCELLED),
        (CANCELLED, Exit(130, None), True, CANCELLED),
        (SAID_SO, Exit(1, None), True, CANCELLED),
        (DONE, Exit(0, None), True, DONE),
    ],
)
def test_a_turns_end_is_reconciled_from_the_stream_and_the_exit(
    said: TurnEnded | None, exit: Exit, cancelled: bool, end: TurnEnded
) -> None:
    assert reconcile(said, exit, cancelled=cancelled) == end


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("""echo '{"end": "completed"}'""", DONE),
        ("""echo '{"end": "completed"}'; exit 3""", bad_exit("exit code 3")),
        ("""echo '{"end": "completed"}'; kill -SEGV $$""", bad_exit("signal 11")),
        ("""echo '{"end": "failed"}'""", SAID_SO),
        ("""echo '{"end": "failed"}'; exit 1""", SAID_SO),
        ("true", BROKEN),
        ("exit 7", crashed("exit code 7")),
        ("kill -KILL $$", crashed("signal 9")),
    ],
)
async def test_each_process_of_a_per_turn_agent_gives_one_end(
    host: PlainHost, project: Path, command: str, end: TurnEnded
) -> None:
    async with listening(PER_TURN, shell(command, project), host) as agent:
        assert (await agent.turn("go"))[-1] == end
        assert (await agent.turn("again"))[-1] == end
        assert agent.of(TurnEnded) == [end, end]


# -- how processes end -----------------------------------------------------------------------------


async def test_a_crash_is_reported_with_its_last_line_and_its_stderr_tail_is_stored(
    host: PlainHost, project: Path
) -> None:
    spec = shell("read line; echo oh >&2; echo it hurts >&2; echo >&2; exit 9", project)
    async with listening(LONG_LIVED, spec, host) as agent:
        await agent.turn("go")
        assert agent.events == [
            AgentStarted(agent="plain", supervision=host.level),
            AgentExited(code=9, detail="oh\nit hurts\n\n"),
            crashed("exit code 9", ": it hurts"),
        ]


@pytest.mark.parametrize("agent", [LONG_LIVED, PER_TURN])
async def test_a_grandchild_that_holds_stdout_does_not_delay_the_turn(
    host: PlainHost, project: Path, agent: StdioAgent
) -> None:
    command = """read line; echo '{"say": "bye"}'; sleep 600 & exit 0"""
    start = time.monotonic()
    async with listening(agent, shell(command, project), host) as talk:
        await talk.turn("go\n")
        assert time.monotonic() - start < 2
        assert talk.events[1:] == [
            MessageChunk(message_id="m", text="bye"),
            AgentExited(code=0),
            BROKEN,
        ]


async def test_all_output_before_the_exit_is_decoded(host: PlainHost, project: Path) -> None:
    program = """
sys.stdin.readline()
os.set_blocking(1, True)
os.write(1, b"".join(b'{"say": "%d"}\\n' % n for n in range(4000)))
os._exit(0)
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        assert [e.text for e in agent.of(MessageChunk)] == [str(n) for n in range(4000)]  # type: ignore[attr-defined]


async def test_a_line_cut_off_by_the_exit_is_stored_and_marked_as_cut(
    host: PlainHost, project: Path
) -> None:
    spec = shell("""read line; printf '{"say": "whole"}\\n{"say": "hal'""", project)
    async with listening(LONG_LIVED, spec, host) as agent:
        await agent.turn("go")
        assert agent.events[1:3] == [
            MessageChunk(message_id="m", text="whole"),
            Unrecognized(raw='{"say": "hal', why="truncated: the agent exited during this line"),
        ]


async def test_a_whole_last_line_needs_no_newline(host: PlainHost, project: Path) -> None:
    spec = shell("""printf '{"end": "completed"}'""", project)
    async with listening(PER_TURN, spec, host) as agent:
        assert (await agent.turn("go"))[-1] == DONE


DEMO = (RECORDINGS / "mock" / "demo" / "wire.jsonl").read_bytes()


class FromFile(MockWire):
    """The mock's messages, written by any program."""

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch(spec.native.options["argv"])


FEEDER = StdioAgent(AgentInfo("feeder", "Feeder", asks=ASKS), FromFile)


@pytest.mark.parametrize("offset", [round(n * len(DEMO) / 11) for n in range(12)])
async def test_a_stream_killed_at_any_byte_keeps_its_output_and_ends_once(
    host: PlainHost, project: Path, offset: int
) -> None:
    (project / "said").write_bytes(DEMO[:offset])
    program = """
sys.stdin.readline()
os.write(1, open("said", "rb").read())
os.kill(os.getpid(), signal.SIGKILL)
"""
    async with listening(FEEDER, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.over()
        reported = receive(FEEDER, DEMO[:offset], 65536)
        end = [] if DONE in reported else [crashed("signal 9")]
        assert agent.events[1:] == [*reported, AgentExited(signal=9), *end]


@pytest.mark.parametrize("size", [1, 7, 64, 65536])
async def test_the_same_bytes_give_the_same_events_however_the_child_writes_them(
    host: PlainHost, project: Path, size: int
) -> None:
    data = DEMO[:2000] + b"\xff\x00{\n\n" + DEMO[2000:]
    (project / "said").write_bytes(data)
    program = f"""
sys.stdin.readline()
with open("said", "rb") as file:
    while chunk := file.read({size}): os.write(1, chunk)
"""
    async with listening(FEEDER, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.over()
        assert agent.events[1:-1] == receive(FEEDER, data, len(data))


# -- cancel and close ------------------------------------------------------------------------------


DEAF = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('{"say": "deaf"}')
while True: time.sleep(600)
"""
DEAFER = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF


@pytest.mark.parametrize("agent", [LONG_LIVED, PER_TURN])
@pytest.mark.parametrize(("program", "signal"), [(DEAF, 15), (DEAFER, 9)])
async def test_a_hung_agent_is_cancelled_by_sigterm_then_with_its_tree(
    host: PlainHost, project: Path, agent: StdioAgent, program: str, signal: int
) -> None:
    async with listening(agent, python(program, project), host) as talk:
        await talk.conversation.prompt(Prompt("go"))
        await talk.until(lambda: talk.text == "deaf")
        await talk.conversation.cancel()
        await talk.until(lambda: talk.of(TurnEnded))
        assert talk.events[-2:] == [AgentExited(signal=signal), CANCELLED]


async def test_cancel_reaches_an_agent_that_reads_nothing(host: PlainHost, project: Path) -> None:
    async with listening(LONG_LIVED, shell("exec sleep 600", project), host) as agent:
        prompt = asyncio.create_task(agent.conversation.prompt(Prompt("x" * 1_000_000)))
        await asyncio.sleep(0.1)
        assert not prompt.done()
        await asyncio.wait_for(agent.conversation.cancel(), 5)
        await agent.until(lambda: agent.events[-1] == CANCELLED)
        await asyncio.wait_for(prompt, 5)


async def test_cancel_returns_when_an_agent_that_reads_nothing_ends_its_turn(
    host: PlainHost, project: Path
) -> None:
    program = """print('{"end": "completed"}'); time.sleep(600)"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        prompt = asyncio.create_task(agent.conversation.prompt(Prompt("x" * 1_000_000)))
        await asyncio.wait_for(agent.conversation.cancel(), 5)
        await agent.until(lambda: agent.of(TurnEnded))
        assert not prompt.done()
    await asyncio.wait_for(prompt, 5)


async def test_a_killed_tree_includes_its_grandchildren(host: PlainHost, project: Path) -> None:
    spec = python(DEAFER.replace("print", "os.system('sleep 601 &'); print"), project)
    async with listening(LONG_LIVED, spec, host) as agent:
        await agent.conversation.prompt(Prompt("go"))
        await agent.until(lambda: agent.text == "deaf")
        assert len(alive(project)) == 2
        await agent.conversation.cancel()
        assert alive(project) == []


@pytest.mark.parametrize("agent", [LONG_LIVED, PER_TURN])
async def test_closing_within_a_turn_cancels_it(
    host: PlainHost, project: Path, agent: StdioAgent
) -> None:
    async with listening(agent, python(DEAFER, project), host) as talk:
        await talk.conversation.prompt(Prompt("go"))
        await talk.until(lambda: talk.text == "deaf")
    assert talk.events[-2:] == [AgentExited(signal=9), CANCELLED]
    assert alive(project) == []


async def test_a_turn_begun_at_the_end_of_another_can_be_cancelled(
    host: PlainHost, project: Path
) -> None:
    """The next prompt may arrive before the last turn's events are all consumed."""
    program = """
if len(sys.argv) > 1: time.sleep(600)
print('{"ready": "n1"}'); print('{"end": "completed"}')
"""
    conversation = await PER_TURN.open(python(program, project), host)
    ends: list[TurnEnded] = []
    cancels: list[asyncio.Task[None]] = []

    def cancel() -> None:
        cancels.append(asyncio.create_task(conversation.cancel()))

    await conversation.prompt(Prompt("one"))
    async with asyncio.timeout(10):
        async for batch in conversation.batches():
            for event in [event for received in batch for event in received.events]:
                if isinstance(event, TurnEnded):
                    ends.append(event)
                    if len(ends) == 1:
                        await conversation.prompt(Prompt("two"))
                        asyncio.get_running_loop().call_later(0.1, cancel)
                    else:
                        await conversation.close()
    assert ends == [DONE, CANCELLED]


# -- what goes in and comes out -------------------------------------------------------------------


ECHO = """
for line in sys.stdin:
    message = json.loads(line)
    if "prompt" in message:
        print(json.dumps({"ask": message["prompt"]}))
    if "answer" in message:
        print(json.dumps({"say": message["answer"]}))
        print(json.dumps({"end": "completed"}))
"""


async def test_replies_go_back_at_once(host: PlainHost, project: Path) -> None:
    async with listening(LONG_LIVED, python(ECHO, project), host) as agent:
        await agent.turn("ping")
        assert agent.text == "ping"


async def test_long_messages_go_in_whole(host: PlainHost, project: Path) -> None:
    text = "é" * 1_500_000
    async with listening(LONG_LIVED, python(ECHO, project), host) as agent:
        await agent.turn(text)
        assert agent.text == text


async def test_a_per_turn_agent_gets_its_prompt_on_stdin_and_is_resumed(
    host: PlainHost, project: Path
) -> None:
    program = """
print(json.dumps({"ready": "n1"}))
print(json.dumps({"say": sys.stdin.read() + " ".join(sys.argv[1:]) + ";"}))
print(json.dumps({"end": "completed"}))
"""
    async with listening(PER_TURN, python(program, project), host) as agent:
        await agent.turn("one ")
        await agent.turn("two ")
        assert agent.text == "one ;two resume=n1;"
        assert agent.of(AgentReady) == [AgentReady(native_id="n1")] * 2


async def test_an_agent_that_starts_its_own_turn_and_exits_gets_its_end(
    host: PlainHost, project: Path
) -> None:
    program = """
sys.stdin.readline()
print('{"end": "completed"}')
print('{"woke": true}')
sys.exit(4)
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.over()
        assert agent.events[1:] == [
            DONE,
            TurnStarted(origin="agent"),
            AgentExited(code=4),
            crashed("exit code 4"),
        ]


async def test_an_end_without_a_beginning_gets_one(host: PlainHost, project: Path) -> None:
    program = """
sys.stdin.readline()
print('{"end": "completed"}')
print('{"end": "failed"}')
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.over()
        assert agent.events[1:] == [
            DONE,
            TurnStarted(origin="agent"),
            SAID_SO,
            AgentExited(code=0),
        ]


async def test_an_agent_that_works_outside_of_a_turn_has_started_one(
    host: PlainHost, project: Path
) -> None:
    program = """
sys.stdin.readline()
print('{"end": "completed"}')
print('{"say": "background", "parent": "c1"}')
print('{"notice": "still here"}')
print('{"say": "more"}')
print('{"woke": true}')
print('{"say": "and more"}')
print('{"end": "failed"}')
print('{"woke": true}')
print('{"end": "completed"}')
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.over()
        assert agent.events[1:] == [
            DONE,
            MessageChunk(message_id="m", text="background", parent="c1"),
            Notice(level="info", kind="session", text="still here"),
            TurnStarted(origin="agent"),
            MessageChunk(message_id="m", text="more"),
            MessageChunk(message_id="m", text="and more"),
            SAID_SO,
            TurnStarted(origin="agent"),
            DONE,
            AgentExited(code=0),
        ]


WOKE_FIRST = """
sys.stdin.readline()
print('{"woke": true}')
print('{"say": "my own; "}')
print('{"end": "completed"}')
print('{"say": "your answer"}')
print('{"end": "completed"}')
sys.stdin.readline()
print('{"say": "and the next"}')
print('{"end": "completed"}')
"""


async def test_an_agent_that_woke_before_it_read_the_prompt_ends_the_turn_with_its_answer(
    host: PlainHost, project: Path
) -> None:
    async with listening(LONG_LIVED, python(WOKE_FIRST, project), host) as agent:
        await agent.turn("go")
        await agent.turn("on")
        await agent.over()
        messages = [event for event in agent.events if isinstance(event, TurnStarted | TurnEnded)]
        assert (messages, agent.text) == ([DONE, DONE], "my own; your answerand the next")


async def test_a_turn_within_a_working_turn_is_emitted_as_received(
    host: PlainHost, project: Path
) -> None:
    program = WOKE_FIRST.replace(
        """print('{"woke": true}')""", """print('{"say": "a"}'); print('{"woke": true}')"""
    )
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.conversation.prompt(Prompt("go"))
        await agent.until(lambda: len(agent.of(TurnEnded)) == 2)
        messages = [event for event in agent.events if isinstance(event, TurnStarted | TurnEnded)]
        assert messages == [TurnStarted(origin="agent"), DONE, TurnStarted(origin="agent"), DONE]


async def test_an_agent_found_working_can_be_cancelled(host: PlainHost, project: Path) -> None:
    program = """
sys.stdin.readline()
print('{"end": "completed"}')
print('{"say": "more"}')
for line in sys.stdin:
    if json.loads(line).get("cancel"):
        print('{"end": "cancelled"}')
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        await agent.until(lambda: agent.text == "more")
        with pytest.raises(SessionBusy):
            agent.conversation.prompt(Prompt("now"))
        await agent.conversation.cancel()
        await agent.until(lambda: agent.events[-1] == CANCELLED)
        assert agent.of(TurnStarted) == [TurnStarted(origin="agent")]


async def test_stderr_is_drained_at_any_volume(host: PlainHost, project: Path) -> None:
    program = """
sys.stdin.readline()
for _ in range(64): os.write(2, b"e" * 1048576)
os.write(2, b"the end")
print('{"say": "done"}')
sys.exit(1)
"""
    async with listening(LONG_LIVED, python(program, project), host) as agent:
        await agent.turn("go")
        (exited,) = agent.of(AgentExited)
        assert isinstance(exited, AgentExited)
        assert exited.detail == "e" * (40 * 1024 - 7) + "the end"


async def test_an_overlong_line_is_counted_hashed_and_spilled_and_the_stream_continues(
    tmp_path: Path, project: Path
) -> None:
    line = b'{"say": "' + b"long" * 50_000 + b'"}'
    program = """
sys.stdin.readline()
os.write(1, b'{"say": "before"}\\n')
data = b'{"say": "' + b"long" * 50_000 + b'"}' + b'\\n{"say": "after"}\\n'
while data: data = data[os.write(1, data):]
print('{"end": "completed"}')
"""
    async with (
        PlainHost.open(tmp_path, line_cap=100_000) as host,
        listening(LONG_LIVED, python(program, project), host) as agent,
    ):
        await agent.turn("go")
        assert agent.events[1:] == [
            MessageChunk(message_id="m", text="before"),
            Unrecognized(
                raw=line[:4096].decode(),
                why="longer than 100000 bytes",
                length=len(line),
                sha256=hashlib.sha256(line).hexdigest(),
                spill="1",
            ),
            MessageChunk(message_id="m", text="after"),
            DONE,
        ]
        assert (tmp_path / "spill" / "1").read_bytes() == line


async def test_a_slow_reader_blocks_the_child_and_nothing_is_lost(
    host: PlainHost, project: Path
) -> None:
    """The child writes 8 MB as fast as possible, and records its progress in a file."""
    program = """
sys.stdin.readline()
with open("progress", "w") as file:
    for n in range(8):
        numbers = range(n * 1000, n * 1000 + 1000)
        data = b"".join(b'{"say": "%07d%s"}\\n' % (i, b"x" * 1000) for i in numbers)
        view = memoryview(data)
        while view: view = view[os.write(1, view):]
        file.seek(0); file.write(str(n + 1)); file.flush()
print('{"end": "completed"}')
"""
    conversation = await LONG_LIVED.open(python(program, project), host)
    await conversation.prompt(Prompt("go"))
    received = conversation.batches()
    await anext(received)
    first = await anext(received)
    progress = project / "progress"
    seen = None
    for _ in range(50):  # until the child makes no progress for a while
        await asyncio.sleep(0.1)
        now = progress.read_text()
        if seen == now:
            break
        seen = now
    assert int(progress.read_text() or 0) <= 3
    expected = 0
    async with asyncio.timeout(60):
        batch = first
        while True:
            for _, events, _ in batch:
                for event in events:
                    if isinstance(event, TurnEnded):
                        assert expected == 8000
                        await conversation.close()
                        return
                    assert event == MessageChunk(
                        message_id="m", text=f"{expected:07d}" + "x" * 1000
                    )
                    expected += 1
            batch = await anext(received)


async def test_a_missing_program_is_named_with_the_command_that_installs_it(
    host: PlainHost, project: Path
) -> None:
    spec = session_spec(cwd=project, options={"argv": ["no-such-program"]})
    with pytest.raises(AgentNotInstalled, match="no `no-such-program` on PATH"):
        await LONG_LIVED.open(spec, host)


async def test_another_binary_may_be_named_by_an_option(host: PlainHost, project: Path) -> None:
    options = {"argv": ["no-such-program", "-c", "exit 5"], "binary": "sh"}
    async with listening(LONG_LIVED, session_spec(cwd=project, options=options), host) as agent:
        await agent.over()
        assert agent.events[-1] == AgentExited(code=5)


async def test_a_per_turn_agent_cannot_be_steered(host: PlainHost, project: Path) -> None:
    async with listening(PER_TURN, shell("true", project), host) as agent:
        with pytest.raises(Unsupported, match="turns does not support steering"):
            await agent.conversation.steer(Prompt("left"))
