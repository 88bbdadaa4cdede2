"""Maps Codex's items to tool names, inputs and results of the common vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tillerman.agents.codex.thread_items import tool_results
from tillerman.agents.codex.thread_items.file_changes import changes
from tillerman.agents.codex.thread_items.shell_items import CodexCommandOutput, command_of
from tillerman.agents.decoding.fields import Table, count, storable, strings, table, tables, text
from tillerman.core.events import Content, Text
from tillerman.core.wire import AttachmentBytes


def tool(kind: str, item: Table) -> tuple[str, str, Table]:
    """Our name for the tool, its native name, and its input."""
    match kind:
        case "commandExecution":
            input = {"command": command_of(item)}
            if cwd := text(item, "cwd"):
                input["cwd"] = cwd
            return "Bash", "exec_command", input
        case "mcpToolCall":
            name = f"{text(item, 'server')}.{text(item, 'tool')}"
            return "MCP", name, _arguments(item)
        case "webSearch":
            return _web(item)
        case "imageView":
            return "Read", "view_image", {"file_path": text(item, "path")}
        case "collabAgentToolCall":
            name = text(item, "tool")
            return "Task", name, {"description": text(item, "prompt") or name}
        case "imageGeneration":
            return "ImageGeneration", "image_generation", {"prompt": text(item, "revisedPrompt")}
        case "sleep":
            return "Sleep", "sleep", {"duration_ms": count(item, "durationMs")}
    name = text(item, "tool") or text(item, "name") or kind
    return name, name, _arguments(item)


def _web(item: Table) -> tuple[str, str, Table]:
    action = table(item, "action")
    if url := text(action, "url"):
        return "WebFetch", "web_search", {"url": url, "pattern": text(action, "pattern")}
    query = text(item, "query") or text(action, "query") or ", ".join(strings(action, "queries"))
    return "WebSearch", "web_search", {"query": query}


def _arguments(item: Table) -> Table:
    given: Any = storable(item.get("arguments"))
    return given if isinstance(given, dict) else {} if given is None else {"arguments": given}


def content(
    item: Table, index: int, outcome: str, output: CodexCommandOutput
) -> Iterator[Content | AttachmentBytes]:
    match text(item, "type"):
        case "commandExecution":
            yield from _output(item, output)
        case "fileChange":
            if outcome == "completed":
                yield from [
                    change.diff for change in changes(item)[index : index + 1] if change.diff
                ]
        case "mcpToolCall":
            if why := text(table(item, "error"), "message"):
                yield Text(why)
            yield from tool_results.content(tables(table(item, "result"), "content"))
        case "dynamicToolCall":
            yield from tool_results.content(tables(item, "contentItems"))
        case "functionCallOutput":
            yield from tool_results.output(item, "output")
        case "collabAgentToolCall":
            states = table(item, "agentsStates")
            for agent in states:
                if message := text(table(states, agent), "message"):
                    yield Text(message)
        case "imageGeneration":
            if data := text(item, "result"):
                yield from tool_results.image(data, "image/png")
            if path := text(item, "savedPath"):
                yield Text(path)


def _output(item: Table, output: CodexCommandOutput) -> Iterator[Content]:
    """The item's full output; deltas lack what came before the item started."""
    message = text(item, "aggregatedOutput")
    if message:
        yield Text(message)
    elif shown := output.text():
        yield shown
    code = item.get("exitCode")
    if type(code) is int and code:
        yield Text(f"exit code {code}")
