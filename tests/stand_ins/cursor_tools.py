"""Tools that really act, behind every gate that Cursor has in print mode."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.stand_ins import cursor_mcp
from tests.stand_ins.cursor_home import Home
from tests.stand_ins.cursor_hooks import NOTE, Hooks, Verdict

Table = dict[str, Any]

HOOK_NAMES = {
    "shell": "Shell", "read": "Read", "edit": "Write", "write": "Write", "delete": "Delete",
    "grep": "Grep", "glob": "Grep", "task": "Task",
}  # fmt: skip
NOT_WHILE_PLANNING = frozenset({"shell", "mcp", "edit", "write", "delete"})
RULES = {"shell": "Shell", "edit": "Write", "write": "Write", "delete": "Write", "read": "Read"}
CLOCK = time.monotonic


class Tools:
    def __init__(
        self,
        home: Home,
        hooks: Hooks,
        *,
        mode: str,
        excluded: set[str],
        approve_mcps: bool,
        sandbox: bool,
    ) -> None:
        self._sandbox = sandbox
        self._home = home
        self._servers = home.servers(approved=approve_mcps)
        self._cwd = home.cwd
        self._hooks = hooks
        self._planning = mode == "plan"
        self._excluded = {_snake(name).removesuffix("_tool_call") for name in excluded}

    def offers(self, kind: str) -> bool:
        """`--exclude-tools`: the server hides them from the model."""
        return _snake(kind) not in self._excluded

    def use(
        self, call_id: str, kind: str, args: Table, result: Table | None = None
    ) -> tuple[Table, list[str]]:
        """The result as the stream reports it, and what hooks add for the model.

        `result` is used if the tool cannot run.
        """
        if self._planning and kind in NOT_WHILE_PLANNING:
            return _rejected("Plan mode is read-only", kind, args), []
        since = CLOCK()
        refused, args = self.ask(call_id, kind, args)
        if refused is None:
            refused = self._denied(kind, args)
        fields = refused or self._do(kind, args, result)
        replies = self._report(call_id, kind, args, fields, (CLOCK() - since) * 1000)
        contexts = [one["additional_context"] for one in replies if "additional_context" in one]
        for reply in replies if kind == "mcp" and "success" in fields else ():
            if "updated_mcp_tool_output" in reply:
                fields = {"success": _native_input(reply["updated_mcp_tool_output"])}
        self._home.note_result(json.dumps([fields, *contexts]))
        return fields, contexts

    # -- gates -------------------------------------------------------------------------------

    def ask(self, call_id: str, kind: str, args: Table) -> tuple[Table | None, Table]:
        """Why it was denied, or nothing; and what the call will do now."""
        name, input = self._as_hooks_see(kind, args)
        if name is None:
            return None, args
        asked = [("Read", {"file_path": args["path"]})] if kind in ("edit", "write") else []
        where = {"cwd": ""} if kind == "shell" else {}
        for tool, given in [*asked, (name, input)]:
            verdict = self._hooks.run_all(
                "preToolUse", tool, tool_name=tool, tool_input=given, tool_use_id=call_id, **where
            )
            if verdict.deny is not None:
                return self._blocked(verdict, f"{verdict.deny}{NOTE}", kind, args), args
            if verdict.input:
                args = _changed(kind, args, verdict.input)
        match kind:
            case "shell":
                command = args["command"]
                verdict = self._hooks.run_all(
                    "beforeShellExecution",
                    command,
                    command=command,
                    cwd=str(self._folder(args)),
                    sandbox=self._sandbox,
                )
                why = f"Hook blocked with message: {verdict.deny}{NOTE}"
            case "read":
                path = self._path(args)
                content = path.read_text() if path.is_file() else ""
                verdict = self._hooks.run_all(
                    "beforeReadFile",
                    str(path),
                    file_path=str(path),
                    content=content,
                    attachments=[],
                )
                why = f"{verdict.deny}{NOTE}"
            case "mcp":
                verdict = self._hooks.run_all(
                    "beforeMCPExecution",
                    args["toolName"],
                    tool_name=args["toolName"],
                    tool_input=json.dumps(args["args"]),
                    **self._address(args),
                )
                why = f"{verdict.deny}{NOTE}"
            case _:
                return None, args
        return (self._blocked(verdict, why, kind, args) if verdict.deny is not None else None), args

    def _blocked(self, verdict: Verdict, why: str, kind: str, args: Table) -> Table:
        self._home.note_result(verdict.told)
        return _rejected(why, kind, args)

    def _address(self, args: Table) -> Table:
        server = self._servers.get(args["serverIdentifier"], {})
        if "url" in server:
            return {"url": server["url"]}
        return {"command": " ".join([server.get("command", ""), *server.get("args", [])])}

    def _denied(self, kind: str, args: Table) -> Table | None:
        """The lists of the config; they override `--force`."""
        for rule in self._home.denied():
            match = re.fullmatch(r"(\w+)\((.*)\)", rule)
            if match and self._matches(match[1], match[2], kind, args):
                error = "Command blocked by permissions configuration"
                where = {k: args[k] for k in ("command", "workingDirectory", "path") if k in args}
                return {"permissionDenied": {**where, "error": error, "isReadonly": False}}
        return None

    def _matches(self, word: str, pattern: str, kind: str, args: Table) -> bool:
        if kind == "mcp":
            called = f"{args['serverIdentifier']}:{args['toolName']}"
            return word == "Mcp" and fnmatch.fnmatchcase(called, pattern)
        if kind == "webFetch":
            return word == "WebFetch" and fnmatch.fnmatchcase(args.get("url", ""), pattern)
        if RULES.get(kind) != word:
            return False
        if word == "Shell":
            return fnmatch.fnmatchcase(args["command"].split()[0], pattern)
        path = self._path(args)
        names = [str(path)]
        if path.is_relative_to(self._cwd):
            names.append(str(path.relative_to(self._cwd)))
        return any(_glob(pattern).fullmatch(name) for name in names)

    def _report(
        self, call_id: str, kind: str, args: Table, fields: Table, took: float
    ) -> list[Table]:
        name, input = self._as_hooks_see(kind, args)
        if name is None:
            return []
        common = {"tool_name": name, "tool_input": input, "tool_use_id": call_id}
        where = {"cwd": str(self._folder(args)), "duration": took}
        if "success" in fields:
            body = fields["success"]
            if kind == "shell":
                self._hooks.report(
                    "afterShellExecution",
                    command=args["command"],
                    output=body["interleavedOutput"],
                    duration=took,
                    sandbox=self._sandbox,
                )
            if kind == "mcp":
                self._hooks.report(
                    "afterMCPExecution",
                    tool_name=args["toolName"],
                    tool_input=json.dumps(args["args"]),
                    result_json=json.dumps(body),
                    duration=took,
                )
            output = {"tool_output": json.dumps(body)}
            return self._hooks.report("postToolUse", name, **common, **output, **where)
        outcome = next(iter(fields))
        refused = outcome in ("rejected", "permissionDenied")
        return self._hooks.report(
            "postToolUseFailure",
            name,
            **common,
            error_message=json.dumps(fields[outcome]),
            failure_type="permission_denied" if refused else _why(fields[outcome]),
            is_interrupt=False,
            **where,
        )

    def _as_hooks_see(self, kind: str, args: Table) -> tuple[str | None, Table]:
        match kind:
            case "shell":
                shown = {"command": args["command"], "cwd": args.get("workingDirectory", "")}
                return "Shell", {**shown, "timeout": args.get("timeout", 30000)}
            case "edit" | "write":
                content = args.get("streamContent", args.get("fileText", ""))
                return "Write", {"file_path": args["path"], "content": content}
            case "read" | "delete":
                return HOOK_NAMES[kind], {"file_path": args["path"]}
            case "mcp":
                return f"MCP:{args['toolName']}", args["args"]
        return HOOK_NAMES.get(kind), args

    # -- deeds -------------------------------------------------------------------------------

    def _do(self, kind: str, args: Table, result: Table | None) -> Table:
        match kind:
            case "shell":
                return self._shell(args)
            case "read":
                return self._read(args)
            case "edit":
                return self._edit(args)
            case "delete":
                return self._delete(args)
            case "glob":
                found = sorted(self._cwd.glob(args["globPattern"]))
                files = [str(path.relative_to(self._cwd)) for path in found]
                body = {"pattern": "", "path": str(self._cwd), "files": files}
                return {"success": {**body, "totalFiles": len(files)}}
            case "grep":
                return {"success": self._grep(args)}
            case "ls":
                return {"success": {"directoryTreeRoot": _tree(self._path(args))}}
            case "updateTodos":
                todos = args["todos"]
                return {"success": {"todos": todos, "totalCount": len(todos), "wasMerge": False}}
            case "mcp" if result is None:
                return self._mcp(args)
            case "askQuestion":
                why = (
                    "Questions skipped by the user, continue with the information you already have"
                )
                return {"rejected": {"reason": why}}
        return result or {"success": {}}

    def _mcp(self, args: Table) -> Table:
        server = self._servers.get(args["serverIdentifier"], {})
        if server.get("status") != "ready":
            return {"error": {"error": f"MCP server not loaded: {args['serverIdentifier']}"}}
        return cursor_mcp.call(server, args["toolName"], args["args"])

    def _shell(self, args: Table) -> Table:
        limit = args.get("timeout", 30000) / 1000
        where = {"command": args["command"], "workingDirectory": args.get("workingDirectory", "")}
        since = CLOCK()
        process = subprocess.Popen(
            ["/bin/sh", "-c", args["command"]],
            cwd=self._folder(args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        aborted = False
        try:
            out, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, errors = process.communicate()
            aborted = True
        code = 130 if aborted else process.returncode
        body = {
            **where,
            "exitCode": code,
            "signal": "SIGINT" if aborted else "",
            "stdout": out,
            "stderr": errors,
            "executionTime": int((CLOCK() - since) * 1000),
            "interleavedOutput": out + errors,
        }
        if code:
            return {"failure": {**body, "aborted": aborted}, "isBackground": False}
        return {"success": body, "isBackground": False}

    def _read(self, args: Table) -> Table:
        path = self._path(args)
        if not path.is_file():
            return {"error": {"errorMessage": f"File not found: {path}"}}
        content = path.read_text()
        lines = content.count("\n") + 1
        return {
            "success": {
                "content": content,
                "isEmpty": not content,
                "exceededLimit": False,
                "totalLines": lines,
                "fileSize": len(content.encode()),
                "path": str(path),
                "readRange": {"startLine": 1, "endLine": lines},
                "relatedCursorRulePaths": [],
                "relatedCursorRules": [],
            }
        }

    def _edit(self, args: Table) -> Table:
        import difflib

        path = self._path(args)
        before = path.read_text() if path.exists() else None
        if swap := args.get("strReplace"):
            after = (before or "").replace(swap["oldText"], swap["newText"], 1)
        else:
            after = args["streamContent"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(after)
        old = f"a/{path}" if before is not None else "/dev/null"
        hunks = list(
            difflib.unified_diff(
                (before or "").splitlines(), after.splitlines(), old, f"b/{path}", lineterm=""
            )
        )
        body: Table = {
            "path": str(path),
            "linesAdded": sum(line[:1] == "+" for line in hunks[2:]),
            "linesRemoved": sum(line[:1] == "-" for line in hunks[2:]),
            "diffString": "\n".join(hunks),
            "afterFullFileContent": after,
        }
        if before is None:
            return {"success": {**body, "message": f"Wrote contents to {path}"}}
        message = f"The file {path} has been updated."
        return {"success": {**body, "beforeFullFileContent": before, "message": message}}

    def _delete(self, args: Table) -> Table:
        path = self._path(args)
        if not path.is_file():
            return {"error": {"error": f"File not found: {path}"}}
        content = path.read_text()
        path.unlink()
        size = str(len(content.encode()))
        body = {"path": str(path), "deletedFile": path.name, "fileSize": size}
        return {"success": {**body, "prevContent": content}}

    def _grep(self, args: Table) -> Table:
        files = []
        for path in sorted(self._cwd.rglob("*")):
            if not path.is_file() or ".git" in path.parts:
                continue
            lines = enumerate(path.read_text(errors="replace").splitlines(), 1)
            found = [(n, line) for n, line in lines if re.search(args["pattern"], line)]
            if found:
                matches = [{"lineNumber": n, "content": line} for n, line in found]
                files.append({"file": f"./{path.relative_to(self._cwd)}", "matches": matches})
        root = {str(self._cwd): {"content": {"matches": files}}}
        return {"pattern": args["pattern"], "outputMode": "content", "workspaceResults": root}

    def _path(self, args: Table) -> Path:
        return self._cwd / args.get("path", ".")

    def _folder(self, args: Table) -> Path:
        return self._cwd / args.get("workingDirectory", "")


def _changed(kind: str, args: Table, input: Table) -> Table:
    """Applies `updated_input`; its meaning for other tools is unknown."""
    match kind:
        case "shell":
            return {**args, "command": input.get("command", args["command"])}
        case "read":
            return {**args, "path": input.get("file_path", args["path"])}
        case "mcp":
            return {**args, "args": input}
    return args


def _native_input(output: Table) -> Table:
    content = [{"text": {"text": part["text"]}} for part in output.get("content", [])]
    return {"content": content, "isError": False, "systemReminders": []}


def _why(body: Table) -> str:
    return "timeout" if body.get("aborted") else "error"


def _rejected(reason: str, kind: str, args: Table) -> Table:
    body: Table = {"reason": reason, "isReadonly": False}
    if kind != "shell":
        return {"rejected": body}
    where = {"command": args["command"], "workingDirectory": args.get("workingDirectory", "")}
    return {"rejected": {**where, **body}, "isBackground": False}


def _tree(folder: Path) -> Table:
    children = sorted(path for path in folder.iterdir() if path.name != ".git")
    return {
        "absPath": str(folder),
        "childrenDirs": [_tree(path) for path in children if path.is_dir()],
        "childrenFiles": [{"name": path.name} for path in children if path.is_file()],
        "childrenWereProcessed": True,
    }


def _glob(pattern: str) -> re.Pattern[str]:
    """`**` any folders, `*` and `?` within a name."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
