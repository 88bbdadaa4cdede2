"""A change of a protected file and its outcome, with a text for users and agents."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tillerman.workspace.protection.protected_names import plain
from tillerman.workspace.protection.restore.quarantine import Act


class Undone(Struct, frozen=True):
    """A change of a protected file and its outcome."""

    path: str
    act: Act
    restored: bool = True  # False: the change is still in place
    quarantined: str = ""  # path of the replaced file in the quarantine
    why: str = ""  # why it was not restored
    settings: tuple[str, ...] = ()  # of a git config: only these were removed

    @property
    def id(self) -> str:
        return Path(self.quarantined).parent.name if self.quarantined else ""

    @property
    def text(self) -> str:
        """Returns the text for the user, and for the agent that made the change."""
        if not self.restored:
            return f"{self.path} was {self.act} and was not restored: {self.why}"
        if self.settings:
            done = f"{self.path}: removed {', '.join(self.settings)}"
        else:
            done = f"{self.path} was {self.act} and has been "
            done += "removed" if self.act == "created" else "restored"
        back = (
            f" `tillerman protected take-back {self.id}` reapplies the change." if self.id else ""
        )
        return f"{done}. {self._reason}.{back}"

    @property
    def _reason(self) -> str:
        parts = [plain(part) for part in self.path.split("/")]
        if ".git" in parts:
            return "It names programs that git runs, so only the user may change it"
        return "It starts programs or configures agents, so only the user may change it"


def act_of(was: object, now: object) -> Act:
    return "created" if was is None else "deleted" if now is None else "changed"
