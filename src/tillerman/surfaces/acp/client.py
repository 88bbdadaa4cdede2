"""What the editor on the other side can do, from its `initialize` request."""

from __future__ import annotations

from msgspec import Struct

from tillerman.core.json_fields import Table, at, table, text


class ClientCapabilities(Struct, frozen=True):
    name: str = ""
    reads_files: bool = False  # `fs/read_text_file`: the text of a buffer, saved or not
    forms: bool = False  # `elicitation/create` with a form
    notices: bool = False  # `notice` updates
    runs_sign_in: bool = False  # starts this program in a terminal with other arguments
    shows_output: bool = False  # draws command output that is sent in `_meta` as a terminal


def capabilities(params: Table) -> ClientCapabilities:
    can = table(params, "clientCapabilities")
    return ClientCapabilities(
        name=text(table(params, "clientInfo"), "name"),
        reads_files=at(can, "fs", "readTextFile") is True,
        forms=at(can, "elicitation", "form") is not None,
        notices=at(can, "session", "notices") is not None,
        runs_sign_in=at(can, "auth", "terminal") is True,
        shows_output=at(can, "_meta", "terminal_output") is True,
    )
