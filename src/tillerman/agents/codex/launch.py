"""Builds Codex's command line and the parameters that open threads, start turns and send input.

How permissions are enforced:

- A hook of ours asks before every call (`hook_requests.py`), so that our policy decides.
- `untrusted` makes Codex ask before every command and every patch even if hooks are disabled;
  `on-request` asks only when the model wants to leave the sandbox. What the hook allowed is not
  asked again, but leaving the sandbox is.
- The answers come from us, not from a reviewer that the user's config may name.
- Every turn names its sandbox. A thread is always opened read-only: opening it writable makes Codex
  store the folder as trusted in the user's config.toml.
- A web search is never asked about: it runs on the model's side. Without the hook, neither are
  viewing an image, tools of a server that the user trusts, and what the user's own rules allow.
"""

from __future__ import annotations

from typing import Any

from tillerman.agents.decoding.fields import Table
from tillerman.agents.decoding.inline_attachments import in_words
from tillerman.core.agent import File, Mode, Prompt, SessionSpec
from tillerman.core.errors import ConfigError
from tillerman.core.wire import Launch

ASKS = {"approvalPolicy": "untrusted", "approvalsReviewer": "user"}
# Otherwise it waits for a network indefinitely, and reports only that it waits.
BOUNDED = "features.unbounded_connection_retries=false"
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def launch(spec: SessionSpec) -> Launch:
    return Launch(["codex", "app-server", "-c", BOUNDED])


def greeting() -> Table:
    """The parameters of `initialize`."""
    from tillerman._version import __version__

    client = {"name": "tillerman", "title": "Tillerman", "version": __version__}
    return {"clientInfo": client, "capabilities": {"experimentalApi": True}}


def opening(spec: SessionSpec, hooks: Table | None = None) -> tuple[str, Table]:
    """The method and parameters that open the thread; `hooks` goes into its config."""
    params: Table = {"cwd": str(spec.cwd), "sandbox": "read-only", **ASKS}
    if spec.model:
        params["model"] = spec.model
    if spec.system:
        params["developerInstructions"] = spec.system
    config = _config(spec)
    if hooks:
        config |= {"hooks": hooks, "features.hooks": True}  # keeps other features
    if config:
        params["config"] = config
    if not spec.resume:
        return "thread/start", params
    params |= {"threadId": spec.resume, "excludeTurns": True}
    return "thread/fork" if spec.fork else "thread/resume", params


def sandbox(spec: SessionSpec) -> str:
    """The validated option `[agents.codex] sandbox`."""
    chosen = spec.native.options.get("sandbox", "workspace-write")
    if chosen not in SANDBOXES:
        raise ConfigError(
            f"unknown codex sandbox {chosen!r}", hint=f"one of {', '.join(SANDBOXES)}"
        )
    return str(chosen)


def sandbox_policy(spec: SessionSpec, mode: Mode) -> Table:
    network = spec.native.options.get("network") is True
    chosen = sandbox(spec)
    writes = mode == "agent" and spec.approval.preset not in ("readonly", "none")
    match chosen if writes else "read-only":
        case "danger-full-access":
            return {"type": "dangerFullAccess"}
        case "read-only":
            return {"type": "readOnly", "networkAccess": False}
    return {
        "type": "workspaceWrite",
        "writableRoots": [str(folder) for folder in spec.folders],
        "networkAccess": network,
        "excludeTmpdirEnvVar": False,
        "excludeSlashTmp": False,
    }


def collaboration(mode: Mode, model: str, effort: str | None) -> Table:
    """Codex has a plan mode; `ask` is its default mode in a read-only sandbox."""
    settings = {"model": model, "reasoning_effort": effort, "developer_instructions": None}
    return {"mode": "plan" if mode == "plan" else "default", "settings": settings}


def user_input(prompt: Prompt) -> list[Table]:
    blocks = [_block(file) for file in prompt.files]
    if prompt.text or not blocks:
        blocks.append(_text(prompt.text))
    return blocks


def _text(text: str) -> Table:
    return {"type": "text", "text": text, "text_elements": []}


def _block(file: File) -> Table:
    if file.mime in _IMAGES:
        import base64

        data = base64.b64encode(file.data).decode()
        return {"type": "image", "url": f"data:{file.mime};base64,{data}"}
    return _text(file_text(file))


def file_text(file: File) -> str:
    hint = "it accepts text, PNG, JPEG, GIF and WebP; refer to other files by path"
    return in_words("codex", file, hint=hint)


def _config(spec: SessionSpec) -> Table:
    """Options without a thread or turn parameter, in the structure of config.toml."""
    config: Table = {}
    if spec.effort:
        config["model_reasoning_effort"] = spec.effort
    if spec.tools.servers:
        config["mcp_servers"] = {
            name: server(dict(each)) for name, each in spec.tools.servers.items()
        }
    return config


def server(given: dict[str, Any]) -> Table:
    """An MCP server in Codex's format. `prompt`: tools marked as read-only are asked about too."""
    words = {"command", "args", "env", "cwd", "url"}
    config = {key: value for key, value in given.items() if key in words}
    if given.get("headers"):
        config["http_headers"] = dict(given["headers"])
    return {**config, "default_tools_approval_mode": "prompt"}
