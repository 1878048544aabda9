"""The settings that a kernel has, with what each takes and means."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache

from . import command


@dataclass(frozen=True)
class Setting:
    """A setting of the kernel, as a key of ``set`` and ``over``."""

    name: str
    default: str
    #: What it takes, in words.
    accepts: str
    #: Bounds of a number.
    least: float | None
    most: float | None
    unit: str
    #: The release that it came with.
    since: str
    #: The part of the kernel that it acts on.
    acts_on: str
    description: str


class Settings(dict[str, Setting]):
    """Settings by name; who asks for one that there is not is told which are like it."""

    def __missing__(self, name: str) -> Setting:
        like = difflib.get_close_matches(name, self, 3)
        raise KeyError(f"{name}: no such setting" + (f"; most like it: {', '.join(like)}" if like else ""))


@cache
def settings() -> Settings:
    """All settings by name."""
    keys = Setting.__dataclass_fields__
    known = command.ask(["list", "settings"])["settings"]
    return Settings({one["name"]: Setting(**{key: one.get(key) for key in keys}) for one in known})
