"""`tarry keys`: makes keys, says which there are, and which of them open work is encrypted with."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tarry.cli.exits import EXIT_CODES, ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import STATE
from tarry.cli.running import run_async
from tarry.codec.census import CLEAR, Census, take_census
from tarry.codec.keys import KEY_BYTES, key_text, load_keyring
from tarry.connect import connect
from tarry.settings import NO_KEY, Settings, SettingsError, load_settings

KEYS = STATE / "keys"
_OPEN = 'ExecutionStatus = "Running"'
_SHOWN = 5

app = typer.Typer(help="Keys that payloads are encrypted with (docs/security.md).", no_args_is_help=True)


@app.command(epilog=EXIT_CODES)
def new(
    id: Annotated[str, typer.Argument(help="Its id, such as 2026-11: it stands in the clear beside all it encrypts.")],
    file: Annotated[Path | None, typer.Option(help=f"Where it is written; {KEYS}/ID by default.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a key and say which settings to change, in which order: to begin, or to rotate.

    Writes a file that only you may read, and never over another one. The key itself is printed nowhere.
    """
    settings = load_settings()
    place = (file or KEYS / id).expanduser().absolute()
    steps = _steps(settings, id, place)
    _write(place)
    output = Output(as_json=as_json)
    if as_json:
        output.json({"id": id, "file": str(place), "steps": steps})
    else:
        shown = "\n\n".join(_shown(number, step) for number, step in enumerate(steps, 1))
        output.text(f"{place}\n\nCopy it to every process, under any path, then set for all of them:\n\n{shown}")
    return ExitCode.DONE


@app.command("list", epilog=EXIT_CODES)
def list_keys(as_json: JsonOption = False) -> int:
    """Show the keys of this process, and whether it reads what is not encrypted.

    Equal fingerprints under one id are equal keys. Ends with 2 when a key cannot be read.
    """
    keyring = load_keyring(load_settings())
    output = Output(as_json=as_json)
    keys = [] if keyring is None else list(keyring.keys.values())
    active = None if keyring is None or keyring.active is None else keyring.active.id
    reads_clear = keyring is None or keyring.reads_clear
    if as_json:
        shown = [{"id": key.id, "place": key.place, "fingerprint": key.fingerprint} for key in keys]
        output.json({"keys": shown, "active": active, "reads_clear": reads_clear})
        return ExitCode.DONE
    table = Table("key", "place", "fingerprint", "", box=None)
    for key in keys:
        table.add_row(key.id, key.place, key.fingerprint, "encrypts" if key.id == active else "decrypts")
    if keys:
        output.table(table)
    output.text("what is not encrypted is read" if reads_clear else "what is not encrypted is refused")
    return ExitCode.DONE


@app.command(epilog=EXIT_CODES)
def used(
    query: Annotated[str, typer.Option(help="Of which workflows, as `temporal workflow list` takes it.")] = _OPEN,
    as_json: JsonOption = False,
) -> int:
    """Count the payloads of open work by the key that encrypts them, `clear` for none.

    Needs no worker and no key: the ids stand in the clear. Reads whole histories, so it takes a while where there are
    many. The store is not looked into: a page there may be the last to need a key.
    """
    return run_async(_used(Output(as_json=as_json), query))


@app.command(epilog=EXIT_CODES)
def token(as_json: JsonOption = False) -> int:
    """Draw a token for TARRY_CODEC_TOKEN, and print it."""
    drawn = secrets.token_urlsafe(KEY_BYTES)
    output = Output(as_json=as_json)
    if as_json:
        output.json({"token": drawn})
    else:
        output.text(drawn)
    return ExitCode.DONE


def _steps(settings: Settings, id: str, place: Path) -> list[dict[str, str]]:
    """The settings of each step of a deployment that begins to encrypt, or turns to the new key (spec §20.2)."""
    known = (settings.codec_keys or "").split()
    if any(entry.partition("=")[0] == id for entry in known):
        raise Problem(ExitCode.PUT_RIGHT, "usage", f"TARRY_CODEC_KEYS names a key {id} already: choose another id")
    keys = {"TARRY_CODEC_KEYS": " ".join([*known, f"{id}=file:{place}"])}
    try:
        Settings(codec_keys=keys["TARRY_CODEC_KEYS"], codec_active=id)
    except ValueError:
        text = f"key {id!r} at {place}: an id has letters, digits, . _ and -, a path no blanks"
        raise Problem(ExitCode.PUT_RIGHT, "usage", text) from None
    first = keys | {"TARRY_CODEC_ACTIVE": settings.codec_active or NO_KEY}
    begins = settings.codec_active in (None, NO_KEY)
    second = keys | {"TARRY_CODEC_ACTIVE": id} | ({"TARRY_CODEC_CLEAR": "true"} if begins else {})
    return [first, second, *([keys | {"TARRY_CODEC_ACTIVE": id}] if begins else [])]


_WHEN = {
    1: "at once",
    2: "when every process runs with that",
    3: f"when `tarry keys used` counts nothing as `{CLEAR}`",
}


def _shown(number: int, step: dict[str, str]) -> str:
    return "\n".join([f"{number}. {_WHEN[number]}:", *(f'   export {name}="{value}"' for name, value in step.items())])


def _write(place: Path) -> None:
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(key_text(secrets.token_bytes(KEY_BYTES)) + "\n")
    except FileExistsError:
        raise Problem(ExitCode.PUT_RIGHT, "exists", f"{place} is there already, and is left as it is") from None
    except OSError as error:
        raise SettingsError(f"{place} cannot be written ({error.strerror})") from None


async def _used(output: Output, query: str) -> int:
    # Only what stands in the clear is read.
    settings = load_settings().model_copy(update={"codec_keys": None, "codec_active": None})
    census = await take_census(await connect(settings), query)
    if output.as_json:
        output.json({"workflows": census.read, "keys": _counted(census)})
        return ExitCode.DONE
    table = Table("key", "payloads", "workflows", box=None)
    for id, found in sorted(census.workflows.items()):
        more = [f"+{len(found) - _SHOWN}"] if len(found) > _SHOWN else []
        table.add_row(id, str(census.payloads[id]), " ".join([*found[:_SHOWN], *more]))
    output.table(table)
    return ExitCode.DONE


def _counted(census: Census) -> dict[str, object]:
    return {id: {"payloads": census.payloads[id], "workflows": found} for id, found in census.workflows.items()}
