"""The prompt box: a plain form with the agent, the settings, and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tillerman.surfaces.page.agent_tile import agent_name
from tillerman.surfaces.page.html_text import escaped, icon


@dataclass(frozen=True)
class SelectOption:
    value: str
    text: str
    disabled: bool = False


@dataclass(frozen=True)
class ComposerView:
    """`session` is None for a new one, which also chooses its agent and folder."""

    session: str | None
    agents: tuple[SelectOption, ...] = ()
    models: tuple[SelectOption, ...] = ()
    modes: tuple[SelectOption, ...] = ()
    approvals: tuple[SelectOption, ...] = ()
    folders: tuple[SelectOption, ...] = ()
    agent: str = ""
    model: str = ""
    mode: str = ""
    approve: str = ""
    running: bool = False
    draft: str = ""


def composer_html(view: ComposerView, csrf: str) -> str:
    action = f"/s/{view.session}/prompt" if view.session else "/new"
    selects = "".join(
        [
            _select("folder", "Folder", view.folders, "") if view.session is None else "",
            _select("agent", "Agent", view.agents, view.agent) if view.session is None else "",
            _select("model", "Model", view.models, view.model),
            _select("mode", "Mode", view.modes, view.mode),
            _select("approve", "Approval", view.approvals, view.approve),
        ]
    )
    if view.session is None:
        hint = "Tell an agent what to do"
    elif view.running:
        hint = "Queue a prompt"
    else:
        hint = f"Prompt {agent_name(view.agent)}"
    stop = (
        f'<button class="btn stop" name="cancel" value="1" formaction="/s/{view.session}/cancel" '
        f'formnovalidate>{icon("stop", "solid")}<span class="lbl">Stop</span>'
        '<kbd aria-hidden="true">Esc</kbd></button>'
        if view.session
        else ""
    )
    send = "Start" if view.session is None else "Queue this prompt" if view.running else "Send"
    return (
        f'<form id="composer" class="composer{" running" if view.running else ""}" method="post" '
        f'action="{action}" enctype="multipart/form-data" aria-label="Prompt">'
        f'<input type="hidden" name="csrf" value="{escaped(csrf)}">'
        '<div class="box"><ul class="chips" aria-label="To be sent along" hidden></ul>'
        '<label class="vh" for="composer-text">Prompt</label>'
        '<textarea id="composer-text" name="text" rows="1" required autocapitalize="sentences" '
        f'placeholder="{hint}">{escaped(view.draft)}</textarea>'
        f'<div class="tools"><div class="sels" role="group" aria-label="Who works, and how">'
        f"{selects}</div>"
        f'<label class="icon-btn file">{icon("clip")}<span class="vh">Attach files</span>'
        '<input type="file" name="files" multiple></label>'
        f'{stop}<button class="send" aria-label="{send}">{icon("send", "thick")}</button>'
        "</div></div></form>"
    )


def _select(name: str, label: str, choices: Sequence[SelectOption], chosen: str) -> str:
    if not choices:
        return ""
    options = "".join(
        f'<option value="{escaped(one.value)}"{" selected" if one.value == chosen else ""}'
        f"{' disabled' if one.disabled else ''}>{escaped(one.text)}</option>"
        for one in choices
    )
    return (
        f'<label class="sel s-{name}"><span class="vh">{label}</span>'
        f'<select name="{name}">{options}</select></label>'
    )
