"""Builds and checks the request bodies of launches and follow-ups."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tillerman.agents.cursor_cloud.failures import NAME
from tillerman.core.agent import Prompt
from tillerman.core.cloud import CloudLaunch
from tillerman.core.errors import Unsupported, UsageError

MOST_IMAGES = 5
MOST_IMAGE = 15 * 1024 * 1024  # bytes
SHORTEST_SECRET = 32  # characters
_PULL_REQUEST = re.compile(
    r"(https://[^/\s]+/[^/\s]+/[^/\s]+)/(?:-/)?(?:pull|merge_requests)/\d+/?\Z"
)
_SCP = re.compile(r"(?:[^@/\s]+@)?([A-Za-z0-9.-]+):(?!//)(.+)")


def needs_v0(launch: CloudLaunch) -> bool:
    """Only version 0 of the API has webhooks and branch names."""
    return launch.webhook is not None or launch.branch is not None


def launch_body(launch: CloudLaunch) -> dict[str, Any]:
    """A launch by version 1. The id is ours: a second one with the same id is refused."""
    body: dict[str, Any] = {
        "agentId": f"bc-{uuid4()}",
        "prompt": prompt_body(launch.prompt),
        "mode": launch.mode,
    }
    if launch.model:
        body["model"] = {"id": launch.model}
    if launch.pull_request:
        url = repository_of(launch.pull_request)
        body["repos"] = [{"url": url, "prUrl": launch.pull_request}]
        body["workOnCurrentBranch"] = True
    elif launch.repository:
        repo = {"url": repository_url(launch.repository)}
        body["repos"] = [repo | ({"startingRef": launch.ref} if launch.ref else {})]
        body["autoCreatePR"] = launch.create_pull_request
    elif launch.ref or launch.create_pull_request:
        raise UsageError(
            "a ref or a pull request needs a repository", hint="give the URL of the repository too"
        )
    if launch.name:
        body["name"] = launch.name
    return body


def v0_launch_body(launch: CloudLaunch) -> dict[str, Any]:
    """A launch by version 0."""
    if launch.mode != "agent":
        raise Unsupported(
            NAME,
            "plan mode together with a webhook or a branch name",
            hint="omit the mode, the webhook or the branch name",
        )
    if launch.pull_request:
        source = {"prUrl": launch.pull_request}
    elif launch.repository:
        source = {"repository": repository_url(launch.repository)}
        source |= {"ref": launch.ref} if launch.ref else {}
    else:
        raise UsageError(
            "a webhook or a branch name needs a repository", hint="give the URL of the repository"
        )
    target: dict[str, Any] = {"autoCreatePr": launch.create_pull_request}
    if launch.branch:
        target["branchName"] = launch.branch
    if launch.pull_request:
        target = {"autoBranch": False}
    body: dict[str, Any] = {
        "prompt": prompt_body(launch.prompt, v0=True),
        "source": source,
        "target": target,
    }
    if launch.model:
        body["model"] = launch.model
    if launch.webhook:
        if len(launch.webhook.secret) < SHORTEST_SECRET:
            raise UsageError(
                f"the webhook secret is shorter than {SHORTEST_SECRET} characters",
                hint="`openssl rand -hex 32` makes one",
            )
        if urlsplit(launch.webhook.url).scheme != "https":
            raise UsageError(
                f"the webhook URL is not https: {launch.webhook.url}", hint="use an https URL"
            )
        body["webhook"] = {"url": launch.webhook.url, "secret": launch.webhook.secret}
    return body


def prompt_body(prompt: Prompt, *, v0: bool = False) -> dict[str, Any]:
    if not prompt.text.strip():
        raise UsageError("the prompt is empty", hint="say what the agent should do")
    images: list[dict[str, Any]] = []
    for file in prompt.files:
        if not file.mime.startswith("image/"):
            raise Unsupported(
                NAME, f"a file of type {file.mime}", hint="attach images, or push the file"
            )
        if len(file.data) > MOST_IMAGE:
            raise UsageError(
                f"{file.name} is larger than {MOST_IMAGE >> 20} MB", hint="attach a smaller image"
            )
        data = {"data": base64.b64encode(file.data).decode()}
        images.append(data if v0 else data | {"mimeType": file.mime})
    if len(images) > MOST_IMAGES:
        raise UsageError(f"{len(images)} images are too many", hint=f"attach at most {MOST_IMAGES}")
    return {"text": prompt.text} | ({"images": images} if images else {})


def repository_of(pull_request: str) -> str:
    found = _PULL_REQUEST.match(pull_request)
    if not found:
        raise UsageError(
            f"not the URL of a pull request: {pull_request}",
            hint="give one such as https://github.com/owner/name/pull/12",
        )
    return found[1]


def repository_url(remote: str) -> str:
    """The https URL of a git remote, without the name and password that it may contain."""
    remote = remote.strip()
    if "://" in remote:
        parts = urlsplit(remote)
        host = (parts.hostname or "") + (
            f":{parts.port}" if parts.port and parts.scheme == "https" else ""
        )
        known = parts.scheme in ("https", "http", "ssh", "git") and host
        place = f"{host}{parts.path}" if known else ""
    else:
        found = _SCP.fullmatch(remote)
        place = f"{found[1]}/{found[2].lstrip('/')}" if found else ""
        if not found and re.fullmatch(r"[A-Za-z0-9.-]+\.[a-z]+/[^\s]+", remote):
            place = remote
    if not place:
        raise UsageError(
            f"the cloud cannot reach the repository {remote}",
            hint="push it to a host such as GitHub, and give that URL",
        )
    return "https://" + place.rstrip("/").removesuffix(".git")
