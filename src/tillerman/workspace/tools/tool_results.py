"""Formats results of process tools: text for models, data for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tillerman.core.events import Diff
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.processes.output_reader import OutputEnds, OutputLines, OutputMatches, ends

HEAD, TAIL = 12_000, 18_000  # bytes of a stream that a sync result shows


class ShownImage(NamedTuple):
    mime: str
    data: str  # base64


class ToolResult(NamedTuple):
    text: str
    data: Mapping[str, Any]
    diff: Diff | None = None
    failed: bool = False
    image: ShownImage | None = None


def run(process: WorkspaceProcess, folder: Path, secrets: Secrets | None = None) -> ToolResult:
    """Formats a finished sync command: its whole output, or both ends of it."""
    data = values(process)
    parts = []
    cut = False
    for stream in ("stdout", "stderr"):
        total = getattr(process, f"{stream}_bytes")
        dropped = total - getattr(process, f"{stream}_kept")
        written = OutputEnds("")
        if total or process.live:
            written = ends(folder / stream, HEAD, TAIL, secrets)
        data[stream] = _both_ends(written)
        cut = cut or written.left_out > 0
        if written.size:
            parts.append(f"--- {stream} ---\n{_shown(written, process.id, stream, dropped)}")
    head = status(process) if cut or process.live else _in_short(process)
    text = "\n".join([head, *(parts or ["no output"])])
    return ToolResult(text, data, failed=process.status not in ("finished", "running"))


def began(process: WorkspaceProcess) -> ToolResult:
    text = (
        f"process_id: {process.id}\nstatus: {process.status}\n"
        f'poll_process(process_id="{process.id}", wait_ms=10000) waits for new output'
    )
    return ToolResult(text, values(process))


def process_status(process: WorkspaceProcess, lines: OutputLines | None, stream: str) -> ToolResult:
    text, data = status(process), values(process)
    if lines is not None:
        said = "\n".join(line.text for line in lines.lines)
        text += f"\n--- last {len(lines.lines)} lines of {stream} ---\n{said}"
        data["tail"] = [line.text for line in lines.lines]
    return ToolResult(text, data)


def page(process: WorkspaceProcess, stream: str, lines: OutputLines) -> ToolResult:
    said = "\n".join(line.text for line in lines.lines)
    more = f"next_offset: {lines.next}" if lines.more else f"end of output at byte {lines.size}"
    if not lines.lines:
        said = "(nothing)"
    head = f"{stream} of {process.id}, bytes {lines.start} to {lines.next} of {lines.size}; {more}"
    return ToolResult(
        f"{head}\n{said}",
        {
            "process_id": process.id,
            "lines": [line.text for line in lines.lines],
            "next_offset": lines.next if lines.more else None,
            "size": lines.size,
            "status": process.status,
        },
    )


_ENDED = {
    "end": "searched to the end",
    "limit": "there may be more: continue from next_offset",
    "time": "timed out: continue from next_offset",
    "slow": "a line took too long to match and was skipped: continue from next_offset",
}


def found(process: WorkspaceProcess, matches: OutputMatches) -> ToolResult:
    blocks = []
    for match in matches.matches:
        around = [*match.before, match.line, *match.after]
        blocks.append("\n".join(f"{line.offset}: {line.text}" for line in around))
    head = f"{len(blocks)} matches; {_ENDED[matches.ended]}"
    if matches.ended != "end":
        head += f" ({matches.next})"
    data = msgspec.to_builtins(matches)
    data["next_offset"] = None if matches.ended == "end" else matches.next
    return ToolResult("\n--\n".join([head, *blocks]), data)


def listing(processes: Sequence[WorkspaceProcess]) -> ToolResult:
    lines = [f"{len(processes)} processes"] if processes else ["no processes"]
    for one in processes:
        wrote = f"wrote {one.stdout_bytes + one.stderr_bytes} bytes"
        command = " ".join(one.command.split())[:120]
        lines.append(f"{one.id}  {_how(one)}  {one.mode}  {wrote}  {command}")
    return ToolResult("\n".join(lines), {"processes": [values(one) for one in processes]})


def status(process: WorkspaceProcess) -> str:
    lines = [f"process_id: {process.id}", f"status: {_how(process)}"]
    if (seconds := _lasted(process)) is not None:
        lines.append(f"duration: {seconds:.2f} s")
    if process.why:
        lines.append(f"why: {process.why}")
    return "\n".join(lines)


def _in_short(process: WorkspaceProcess) -> str:
    lines = [_how(process)]
    if (seconds := _lasted(process)) is not None:
        lines[0] += f", {seconds:.2f} s"
    if process.why:
        lines.append(process.why)
    return "\n".join(lines)


def values(process: WorkspaceProcess) -> dict[str, Any]:
    found: dict[str, Any] = {
        "process_id" if name == "id" else name: getattr(process, name)
        for name in (
            "id", "command", "cwd", "mode", "isolation", "status", "pid", "code", "signal",
            "began_at", "ended_at", "stdout_bytes", "stderr_bytes", "stdout_kept", "stderr_kept",
            "why",
        )
    }  # fmt: skip
    found["exit_code"] = found.pop("code")
    found["duration"] = _lasted(process)
    return found


def _how(process: WorkspaceProcess) -> str:
    if process.signal is not None:
        return f"{process.status} by signal {process.signal}"
    return process.status if process.code is None else f"{process.status}, exit code {process.code}"


def _lasted(process: WorkspaceProcess) -> float | None:
    if process.ended_at is None:
        return None
    began, ended = (datetime.fromisoformat(at) for at in (process.began_at, process.ended_at))
    return (ended - began).total_seconds()


def _both_ends(written: OutputEnds) -> str:
    if not written.left_out:
        return written.head
    return f"{written.head}\n[{written.left_out} bytes left out]\n{written.tail}"


def _shown(written: OutputEnds, process: str, stream: str, dropped: int) -> str:
    text = written.head
    if written.left_out:
        where = f'read_process_output("{process}", stream="{stream}", mode="range", '
        text = (
            f"{text}\n[{written.left_out} bytes left out: {where}offset={written.offset}) "
            f"reads them]\n{written.tail}"
        )
    if dropped > 0:
        text += f"\n[{dropped} bytes over the size limit of the file were dropped]"
    return text.rstrip("\n")


def written(path: Path, secrets: Secrets | None = None) -> str:
    found = ends(path, HEAD, TAIL, secrets)
    return _both_ends(found)


def with_notes(told: ToolResult, notes: Sequence[str]) -> ToolResult:
    if not notes:
        return told
    text = "\n".join([told.text, *(f"note: {note}" for note in notes)])
    return told._replace(text=text, data={**told.data, "notes": list(notes)})
