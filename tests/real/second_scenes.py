"""Scenes that two scripted models play, each in its own format, and the prompts that start them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tests.real import second_model as second
from tests.real.second_model import Broken, Call, Delivery, Failure, Reply, Text, Thought, Usage
from tests.real.second_model.script import REASONS
from tests.real.stages import Actor
from tillerman.testing.model_double import script as first
from tillerman.testing.scenario import ToolAction, do

Part = Text | Thought | Call | ToolAction


class Says(msgspec.Struct, frozen=True):
    """A reply whose calls are not yet in the format of a CLI."""

    parts: tuple[Part, ...]
    stop: Literal["end", "length", "refusal"] = "end"
    usage: Usage = Usage()
    delivery: Delivery = Delivery()


class Breaks(msgspec.Struct, frozen=True):
    """`Broken`, whose calls are not yet in the format of a CLI."""

    parts: tuple[Part, ...]
    ending: Literal["dropped", "ended", "error"] = "dropped"


Line = Says | Failure | Breaks


class Scene(msgspec.Struct, frozen=True):
    """Steps, each of which is what its first, second, … attempt gets. `needs` is the tool that a
    CLI must have, by the name of its method on a stage."""

    steps: tuple[tuple[Line, ...], ...]
    needs: str | None = None


def reply(*parts: Part, **more: Any) -> Says:
    return Says(parts, **more)


def text(words: str, **more: Any) -> Scene:
    return Scene(((reply(Text(words), **more),),))


def after(*failures: Line, words: str) -> Scene:
    """An answer after failures; repeated for a CLI that stores what preceded the failure."""
    answer = reply(Text(words))
    return Scene(((*failures, answer), (answer,), (answer,)))


def tools(*lines: Line, needs: str | None = None) -> Scene:
    return Scene(tuple((line,) for line in (*lines, reply(Text("All done.")))), needs)


UNICODE = "Čeština, 漢字, ไทย, e\u0301 and é, 👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 𝔘, \u2028 line, “quotes”."
MARKUP = "# Title\n\n- `Vec<u8>`\n- <details>x</details>\n\n```py\nprint('<b>')\n```\n\n| a | b |\n"
LONG = " ".join(f"word{number}" for number in range(400))
LINE = "-".join(map(str, range(15_000)))  # Gemini ends what repeats itself
BLOB = "".join(f'line {number} \\ "quoted" \t é\n' for number in range(700))

SCENES: dict[str, Scene] = {
    "text": text("Good morning, this is a plain answer."),
    "one-piece": text("Everything in a single piece.", delivery=Delivery(pieces="whole")),
    "small-pieces": text(LONG, delivery=Delivery(pieces="small")),
    "unicode": text(UNICODE, delivery=Delivery(pieces="small", bytewise=True)),
    "markup": text(MARKUP),
    "blank-lines": text("First.\n\n\n   Indented.\n\n"),
    "two-texts": Scene(((reply(Text("One message. "), Text("Another message.")),),)),
    "thinking": Scene(((reply(Thought("I weigh it carefully."), Text("Considered.")),),)),
    "thinking-and-tool": tools(reply(Thought("I look first."), do("shell", "echo seen"))),
    "tool": tools(reply(do("shell", "echo one"))),
    "text-and-tool": tools(reply(Text("I run it."), do("shell", "echo two"))),
    "tools-in-sequence": tools(reply(do("shell", "echo a")), reply(do("shell", "echo b"))),
    "tools-in-parallel": tools(
        reply(do("shell", "echo p"), do("shell", "echo q"), do("shell", "echo r"))
    ),
    "many-steps": tools(*(reply(Text(f"Step {n}. "), do("shell", f"echo {n}")) for n in range(5))),
    "tool-fails": tools(reply(do("shell", "echo bad >&2; exit 3"))),
    "missing-file": tools(reply(do("read", "PROJECT/absent.txt")), needs="read"),
    "unknown-tool": tools(reply(Call("no_such_tool", {"value": 1}))),
    "write": tools(reply(do("write", "PROJECT/made.txt", "made\n"))),
    "large-arguments": tools(
        reply(do("write", "PROJECT/large.txt", BLOB), delivery=Delivery(pieces="mixed"))
    ),
    "large-arguments-whole": tools(
        reply(do("write", "PROJECT/whole.txt", BLOB), delivery=Delivery(pieces="whole"))
    ),
    "escaped-arguments": tools(
        reply(
            do("shell", "printf '%s\\n' \"ü 漢 🦆\" 'a\\tb' \"it's\""),
            delivery=Delivery(pieces="small", bytewise=True),
        )
    ),
    "big-numbers": tools(reply(Call("SHELL", {"ticket": 9007199254740993, "ratio": 1.5e-7}))),
    "wrong-arguments": tools(reply(Call("SHELL", {"command": 5, "cmd": {"nested": [None, True]}}))),
    "tool-then-text": tools(
        reply(do("shell", "echo first"), Text("It runs."), delivery=Delivery(pieces="whole"))
    ),
    "tools-of-several-kinds": tools(
        reply(do("shell", "echo good"), do("shell", "exit 4"), Call("no_such_tool", {}))
    ),
    "write-and-edit": tools(
        reply(do("write", "PROJECT/ä file.txt", "one\ntwo\n")),
        reply(do("edit", "PROJECT/ä file.txt", "two\n", "three\n")),
    ),
    "two-thoughts": Scene(
        ((reply(Thought("One."), Text("First. "), Thought("Two."), Text("Second.")),),)
    ),
    "long-line": text(LINE, delivery=Delivery(pieces="whole")),
    "no-usage": text("For free.", usage=Usage(fresh=0, output=0)),
    "usage": text("Counted.", usage=Usage(fresh=1234, output=56, cached=789)),
    "usage-of-steps": tools(reply(do("shell", "echo u"), usage=Usage(fresh=11, output=7))),
    "slow": text("It comes slowly but surely.", delivery=Delivery(pause=0.1)),
    "half-event": text("The middle waits.", delivery=Delivery(half=0.7)),
    "keep-alive": text("Still there.", delivery=Delivery(keep_alive=True)),
    "unknown-fields": text("Something new.", delivery=Delivery(unknown=True)),
    "length": Scene(
        ((reply(Text("Cut at the limit"), stop="length"),), (reply(Text(" and on.")),))
    ),
    "refusal": Scene(((reply(Text("I will not"), stop="refusal"),),) * 2),
    "bad-request": Scene(((Failure(400),),)),
    "unknown-model": Scene(((Failure(404),),)),
    "server-error": after(Failure(500), words="After an error."),
    "overloaded": after(Failure(529), words="After a crowd."),
    "rate-limit": after(Failure(429, retry_after=1), words="After a wait."),
    "refused-key": Scene(((Failure(401),),)),
    "forbidden": Scene(((Failure(403),),)),
    "unavailable": after(Failure(503), words="After a break."),
    "empty": after(reply(Text("")), words="Not empty."),
    "only-thought": after(reply(Thought("Hm.")), words="Not only thought."),
    "ended": after(Breaks((Text("Half a sent"),), "ended"), words="A sentence."),
    "dropped-in-call": after(Breaks((do("shell", "echo lost; sleep 30"),)), words="No call."),
    "dropped": after(Breaks((Text("Half a sen"),)), words="A whole sentence."),
    "error-event": after(Breaks((Text("Half a "),), "error"), words="Whole again."),
}

RARE = frozenset(
    {
        *("one-piece", "markup", "blank-lines", "two-thoughts", "long-line", "only-thought"),
        *("tool", "text-and-tool", "tool-then-text", "tools-in-sequence", "missing-file"),
        *("tools-of-several-kinds", "write", "large-arguments-whole", "dropped-in-call"),
        *("usage-of-steps", "no-usage", "bad-request", "forbidden", "unavailable"),
        *("unknown-model",),
    }
)
"""Played by `make torture` alone: close to others, and time is short."""
assert SCENES.keys() >= RARE


def for_second(scene: Scene, actor: Actor) -> list[list[second.Step]]:
    return [[_second_step(line, actor) for line in step] for step in scene.steps]


def for_first(scene: Scene, actor: Actor) -> list[first.Step]:
    steps = [[_first_step(line, actor) for line in step] for step in scene.steps]
    return [step[0] if len(step) == 1 else first.attempts(*step) for step in steps]


def _second_step(line: Line, actor: Actor) -> second.Step:
    if isinstance(line, Failure):
        return line
    parts = tuple(_second_part(part, actor) for part in line.parts)
    if isinstance(line, Breaks):
        return Broken(parts, line.ending)
    return Reply(parts, line.stop, line.usage, line.delivery)


def _first_step(line: Line, actor: Actor) -> first.ModelMessage | first.Fail:
    match line:
        case Failure(status, retry_after):
            return first.Fail(status, message=REASONS[status][2], retry_after=retry_after)
        case Breaks(parts, ending):
            endings = {
                "error": (first.Fail(529, message="Overloaded"),),
                "ended": (first.Stall(0.5), first.Close()),
            }
            last = endings.get(ending, (first.ConnectionCut(0.5),))
            return first.reply(*(_first_part(part, actor) for part in parts), *last)
        case Says(parts, stop, usage, delivery):
            counts = first.Usage(usage.fresh, usage.output, usage.cached)
            stops = {"end": None, "length": "max_tokens", "refusal": "refusal"}
            chunks = 1 if delivery.pieces == "whole" else 3
            played = (_first_part(part, actor, chunks) for part in parts)
            return first.reply(*played, stop=stops[stop], usage=counts)


def _first_part(part: Part, actor: Actor, chunks: int = 3) -> first.Part:
    match part:
        case Text(words):
            return first.Say(words, chunks)
        case Thought(words):
            return first.Think(words, chunks=1)  # Gemini trims each piece
        case Call() | ToolAction():
            call = _call(part, actor)
            return first.ModelToolCall(call.name, call.arguments)


def _second_part(part: Part, actor: Actor) -> second.Part:
    return _call(part, actor) if isinstance(part, Call | ToolAction) else part


def _call(part: Call | ToolAction, actor: Actor) -> Call:
    """The call in this CLI's format; PROJECT is its folder, and SHELL the name of its shell
    tool."""
    stage = actor.stage
    if isinstance(part, Call):
        if part.name != "SHELL":
            return part
        shell = stage.shell("echo numbers")
        return Call(shell.name, shell.input | part.arguments)
    words = [word.replace("PROJECT", str(actor.project)) for word in part.words]
    made: first.ModelToolCall = getattr(stage, part.tool)(*words)
    return Call(made.name, made.input)
