"""Where content too large for a workflow's history is kept, and references to it.

A store is the SDK's external storage driver; a blob is named by the hash of its bytes and never
changes (spec §8.1). Nothing here deletes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import hashlib
import os
import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.aws.s3driver import S3StorageDriver, S3StorageDriverClient
from temporalio.converter import (
    DataConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

if TYPE_CHECKING:
    import aioboto3

T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_blob_name(name: str) -> bool:
    """Whether `name` can be that of a blob."""
    return _SHA256.fullmatch(name) is not None


class StoreError(Exception):
    """A store cannot be used, or a blob is missing, damaged or not what was asked for. One line."""


class LocalStore(StorageDriver):
    """Blobs as files of one directory, shared by any number of processes.

    A blob is durable when `store` returns, whole or absent whatever is killed, and written once:
    storing it again only makes its file count as new, so that files may be removed by age. What a
    killed writer leaves behind starts with a dot. The directory is made at the first write,
    readable by its owner alone.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory.expanduser().absolute()

    def name(self) -> str:
        """The name under which references in history find this driver, wherever its directory is."""
        return "tarry.local"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Write what is not there yet.

        Raises:
            StoreError: the directory cannot be written.
        """
        blobs = [payload.SerializeToString(deterministic=True) for payload in payloads]
        return await asyncio.to_thread(lambda: [self._store(blob) for blob in blobs])

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Read the blobs, each checked against its name.

        Raises:
            StoreError: one is missing, damaged or unreadable; it names the blob and the directory.
        """
        return await asyncio.to_thread(lambda: [self._retrieve(claim) for claim in claims])

    def _store(self, blob: bytes) -> StorageDriverClaim:
        name = hashlib.sha256(blob).hexdigest()
        path = self._path(name)
        try:
            if not _renew(path, blob):
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_whole(path, blob)
                _sync_directories(path.parent, path.parent.parent, self.directory)
        except OSError as error:
            raise StoreError(f"the store {self.directory} cannot be written: {error.strerror}") from error
        return StorageDriverClaim(claim_data={"sha256": name})

    def _retrieve(self, claim: StorageDriverClaim) -> Payload:
        name = claim.claim_data.get("sha256", "")
        # A reference is data that a sender may have written: it must not lead out of the directory.
        if not is_blob_name(name):
            raise StoreError(f"{name!r} names no blob of the store {self.directory}")
        try:
            blob = self._path(name).read_bytes()
        except FileNotFoundError as error:
            raise StoreError(
                f"blob {name} is missing from the store {self.directory}: "
                "every process needs the same TARRY_STORE, and a removed blob must be put back"
            ) from error
        except OSError as error:
            raise StoreError(f"blob {name} of the store {self.directory} cannot be read: {error.strerror}") from error
        if hashlib.sha256(blob).hexdigest() != name:
            raise StoreError(f"blob {name} of the store {self.directory} is damaged: put back {self._path(name)}")
        return Payload.FromString(blob)

    def _path(self, name: str) -> Path:
        return self.directory / name[:2] / name[2:4] / name


def _renew(path: Path, blob: bytes) -> bool:
    """Whether `path` already holds `blob`; then it counts as new. A damaged file does not hold it."""
    try:
        if path.read_bytes() != blob:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _write_whole(path: Path, blob: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(blob)
            file.flush()
            # Before the rename, or a power cut leaves an empty file under the blob's name.
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_directories(*directories: Path) -> None:
    for directory in directories:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def open_store(url: str) -> StorageDriver:
    """The store at `url`: a directory's path, `file:///directory` or `s3://bucket/prefix`. Touches nothing yet.

    S3 takes region, credentials and endpoint from AWS's own variables and files.

    Raises:
        StoreError: `url` is none of these, or S3 is asked for and the `s3` extra is not installed.
    """
    if "://" not in url:
        if not url:
            raise StoreError("the store needs a directory, file:///directory or s3://bucket/prefix")
        return LocalStore(Path(url))
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return LocalStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc:
        return _open_s3(parts.netloc, parts.path.strip("/"))
    raise StoreError(f"the store cannot be {url}: give a directory, file:///directory or s3://bucket/prefix")


def _open_s3(bucket: str, prefix: str) -> StorageDriver:
    try:
        import aioboto3
    except ImportError as error:
        raise StoreError(f"the store s3://{bucket} needs the s3 extra: pip install 'tarry[s3]'") from error
    return S3StorageDriver(client=_S3Client(aioboto3.Session(), prefix), bucket=bucket)


class _S3Client(S3StorageDriverClient):
    """Connects at the first use, once for each event loop, and puts the prefix before every key."""

    def __init__(self, session: aioboto3.Session, prefix: str) -> None:
        self._session = session
        self._prefix = f"{prefix}/" if prefix else ""
        self._connections: dict[asyncio.AbstractEventLoop, _S3Connection] = {}

    async def put_object(self, *, bucket: str, key: str, data: bytes) -> None:
        client = await self._connect()
        await client.put_object(bucket=bucket, key=self._prefix + key, data=data)

    async def object_exists(self, *, bucket: str, key: str) -> bool:
        client = await self._connect()
        return await client.object_exists(bucket=bucket, key=self._prefix + key)

    async def get_object(self, *, bucket: str, key: str) -> bytes:
        client = await self._connect()
        return await client.get_object(bucket=bucket, key=self._prefix + key)

    async def _connect(self) -> S3StorageDriverClient:
        loop = asyncio.get_running_loop()
        return await self._connections.setdefault(loop, _S3Connection(self._session)).client()


class _S3Connection:
    """One event loop's connection pool.

    It is held open by a suspended generator, which the loop itself closes when it shuts down: a
    storage driver is never told that it is no longer needed.
    """

    def __init__(self, session: aioboto3.Session) -> None:
        self._session = session
        self._lock = asyncio.Lock()
        self._client: S3StorageDriverClient | None = None

    async def client(self) -> S3StorageDriverClient:
        async with self._lock:
            if self._client is None:
                self._held = self._hold()
                self._client = await anext(self._held)
            return self._client

    async def _hold(self) -> AsyncGenerator[S3StorageDriverClient]:
        from temporalio.contrib.aws.s3driver.aioboto3 import new_aioboto3_client

        async with self._session.client("s3") as client:
            yield new_aioboto3_client(client)


class BlobStore:
    """Values kept outside of history on purpose, whatever their size, each behind a short text.

    Goes through the client's own converter, so that its codec and its store apply here too.
    """

    def __init__(self, converter: DataConverter) -> None:
        if converter.external_storage is None:
            raise StoreError("the data converter has no external storage: make it with tarry.connect.data_converter")
        storage = dataclasses.replace(converter.external_storage, payload_size_threshold=0)
        self._converter = dataclasses.replace(converter, external_storage=storage)

    async def put(self, value: Any) -> str:
        """Store JSON data or a pydantic value and return its reference. Equal values may share a blob.

        Raises:
            ValueError: the value is not JSON data.
            StoreError: the store cannot be written.
        """
        payload = (await self._converter.encode([value]))[0]
        # A storage driver may be configured to leave a payload where it is; that is no reference.
        if not payload.external_payloads:
            raise StoreError("the external storage kept a payload inline")
        return base64.urlsafe_b64encode(payload.SerializeToString(deterministic=True)).decode()

    async def get(self, reference: str, as_type: type[T]) -> T:
        """The value behind `reference`.

        Raises:
            StoreError: no reference of ours, or the blob is missing, damaged or not an `as_type`.
        """
        payload = _parse_reference(reference)
        try:
            value: T = (await self._converter.decode([payload], [as_type]))[0]
        # What drivers raise: the SDK's own and pydantic's errors are of these two kinds.
        except (RuntimeError, ValueError) as error:
            raise StoreError(f"the blob cannot be read: {_first_line(error)}") from error
        return value


def _parse_reference(reference: str) -> Payload:
    try:
        payload = Payload.FromString(base64.b64decode(reference.encode(), b"-_", validate=True))
    except (binascii.Error, DecodeError, UnicodeEncodeError) as error:
        raise StoreError(f"{reference[:40]!r} is no reference to a blob") from error
    if not payload.external_payloads:
        raise StoreError(f"{reference[:40]!r} is no reference to a blob")
    return payload


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
