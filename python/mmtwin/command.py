"""The command as a process: where it is, what it is given, what it says while it runs and when it fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import showing

#: Options whose values are names of kernels or policies.
NAMES = ("variants", "kernel", "policies", "from", "to")

#: What the command exits with if what it was asked cannot be done as written.
USAGE = 2


class CommandError(Exception):
    """The command failed. The text is its own, and names file, key and remedy."""


class UsageError(CommandError, ValueError):
    """It was asked for something that there is not: an unknown key, a value out of bounds, a file that cannot be read."""


class CommandMissing(CommandError, FileNotFoundError):
    """There is no command ``mmtwin``."""


def path() -> str:
    """The command: what ``MMTWIN`` names, the one that was installed with this module, or the one on the path."""
    named = os.environ.get("MMTWIN")
    if named:
        return named
    own = Path(sysconfig.get_path("scripts")) / "mmtwin"
    found = str(own) if own.exists() else shutil.which("mmtwin")
    if found is None:
        raise CommandMissing("no command mmtwin: pip install . in its source tree, or set MMTWIN to its path")
    return found


def options(given: Mapping[str, Any]) -> list[str]:
    """Options of the command: ``None`` and ``False`` are left out, lists are joined by commas, tables are given key by key."""
    arguments: list[str] = []
    for key, value in given.items():
        if key in NAMES and value is not None:
            _check_names(key, value)
        flag = "--" + key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(flag)
        elif isinstance(value, Mapping):
            for name, one in value.items():
                arguments += [flag, f"{name}={_text(one)}"]
        else:
            arguments += [flag, _text(value)]
    return arguments


def _check_names(key: str, value: Any) -> None:
    for name in [value] if isinstance(value, str) or not isinstance(value, Iterable) else value:
        if not isinstance(name, str):
            raise TypeError(f'{key} = {name!r}: names are text, such as "6.10"; the number 6.10 is 6.1')


def repeated(flag: str, values: str | Iterable[str]) -> list[str]:
    """An option that is given once for each value."""
    each = [values] if isinstance(values, str) else values
    return [argument for value in each for argument in (flag, value)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ",".join(_text(one) for one in value)


def ask(arguments: list[str], progress: bool | None = None) -> Any:
    """Runs the command with ``--json`` and returns the document that it printed."""
    return json.loads(call([*arguments, "--json"], progress))


def call(arguments: list[str], progress: bool | None = None) -> str:
    """Runs the command and returns what it printed; ``progress`` shows how far it is (by default where somebody looks)."""
    process = subprocess.Popen(
        [path(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    said: list[str] = []
    listener = threading.Thread(target=_listen, args=(process.stderr, said, showing.display(progress)))
    listener.start()
    try:
        printed = process.stdout.read()
        process.wait()
    except BaseException:
        # The command keeps what it has made when it is interrupted.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    finally:
        listener.join()
    if process.returncode != 0 and not printed.strip():
        told = [line for line in said if not line.startswith("For more information, try")]
        text = "\n".join(told).removeprefix("error: ").strip() or f"mmtwin ended with {process.returncode}"
        raise (UsageError if process.returncode == USAGE else CommandError)(text)
    return printed


def _listen(stream: Iterable[str], said: list[str], display: showing.Terminal | showing.Notebook | None) -> None:
    for line in stream:
        line = line.rstrip("\n")
        if not showing.LINE.match(line):
            said.append(line)
        elif display:
            display.show(line)
    if display:
        display.clear()
