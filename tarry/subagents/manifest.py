"""What `tarry agents init` did last: which presets it manages, and which the user has deleted (spec §17.25)."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from tarry.subagents.files import FileError, Home, read_text, write_whole

# A name becomes that of a file that is replaced or removed, so nothing else may be read here.
PresetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class Manifest(BaseModel):
    """The file. `managed` were installed and not deleted by the user since, `retired` were."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[1] = 1
    version: str
    managed: list[PresetName]
    retired: list[PresetName]


class CorruptManifest(FileError):
    """The manifest is damaged: nothing is installed, and `copy` is what it held."""

    def __init__(self, path: Path, copy: Path | None) -> None:
        kept = f" (copied to {copy})" if copy else ""
        super().__init__(
            path,
            f"is damaged{kept}, so no presets are installed: repair it, or remove it to have them installed as on the "
            "first day",
        )
        self.copy = copy


def presets() -> dict[str, bytes]:
    """The presets of this package by name. They are templates: nothing runs by them."""
    folder = files("tarry.subagents") / "presets"
    found = {one.name.removesuffix(".md"): one.read_bytes() for one in folder.iterdir() if one.name.endswith(".md")}
    return dict(sorted(found.items()))


def read_manifest(home: Home) -> Manifest | None:
    """The manifest, None before the first time.

    Raises:
        CorruptManifest: it is damaged.
        FileError: it cannot be read.
    """
    try:
        return Manifest.model_validate_json(read_text(home.manifest))
    except FileNotFoundError:
        return None
    except ValidationError:
        raise CorruptManifest(home.manifest, None) from None
    except FileError as error:
        if os.path.isfile(home.manifest) and not isinstance(error.__cause__, OSError):
            raise CorruptManifest(home.manifest, None) from None
        raise


def keep_corrupt(home: Home) -> Path:
    """Copy a damaged manifest to a name that its content gives it, once; where it is.

    Raises:
        OSError: that cannot be done.
    """
    data = home.manifest.read_bytes()
    copy = home.manifest.with_name(f"{home.manifest.name}.corrupt-{hashlib.sha256(data).hexdigest()[:16]}")
    if not copy.exists():
        write_whole(copy, data)
    return copy


def notes(home: Home) -> tuple[str, ...]:
    """What a person should know of the presets: never installed, of another version, or not to be told."""
    try:
        manifest = read_manifest(home)
    except FileError as error:
        return (str(error),)
    if manifest is None:
        return (f"the presets {', '.join(presets())} were never installed here: `tarry agents init`",)
    if manifest.version != (here := package_version()):
        return (f"the presets here are of tarry {manifest.version}, this is {here}: `tarry agents init`",)
    return ()


def package_version() -> str:
    """The version that presets are of."""
    return version("tarry")
