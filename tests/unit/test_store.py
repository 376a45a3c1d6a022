from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import (
    DataConverter,
    ExternalStorage,
    PayloadCodec,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from tarry.connect import data_converter
from tarry.store import BlobStore, LocalStore, StoreError, open_store

PAYLOAD = Payload(metadata={"encoding": b"json/plain", "a": b"1"}, data=b'"hello"')


async def keep(store: StorageDriver, *payloads: Payload) -> list[StorageDriverClaim]:
    return await store.store(StorageDriverStoreContext(), payloads)


async def read(store: StorageDriver, *claims: StorageDriverClaim) -> list[Payload]:
    return await store.retrieve(StorageDriverRetrieveContext(), claims)


def blobs(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


async def test_blob_is_a_file_named_by_the_hash_of_its_bytes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")

    claims = await keep(store, PAYLOAD, Payload(data=b"other"))

    files = sorted(blobs(tmp_path / "store"))
    assert sorted(claim.claim_data["sha256"] for claim in claims) == sorted(file.name for file in files)
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.name
        assert file.parent == tmp_path / "store" / file.name[:2] / file.name[2:4]
    assert await read(store, *claims) == [PAYLOAD, Payload(data=b"other")]


async def test_second_store_of_a_blob_keeps_the_file_and_counts_as_new(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = await keep(store, PAYLOAD)
    [file] = blobs(tmp_path)
    inode = file.stat().st_ino
    os.utime(file, (1_000, 1_000))

    assert await keep(store, PAYLOAD) == first
    assert blobs(tmp_path) == [file]
    assert file.stat().st_ino == inode
    assert file.stat().st_mtime > 1_000


async def test_another_directory_with_the_same_files_serves_the_same_references(tmp_path: Path) -> None:
    claims = await keep(LocalStore(tmp_path / "old"), PAYLOAD)
    (tmp_path / "old").rename(tmp_path / "new")

    assert await read(LocalStore(tmp_path / "new"), *claims) == [PAYLOAD]


async def test_missing_blob_is_named_with_its_store(tmp_path: Path) -> None:
    claims = await keep(LocalStore(tmp_path / "one"), PAYLOAD)

    with pytest.raises(StoreError) as missing:
        await read(LocalStore(tmp_path / "two"), *claims)

    assert str(missing.value) == (
        f"blob {claims[0].claim_data['sha256']} is missing from the store {tmp_path / 'two'}: "
        "every process needs the same TARRY_STORE, and a removed blob must be put back"
    )


async def test_damaged_blob_is_refused_until_it_is_stored_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    claims = await keep(store, PAYLOAD)
    [file] = blobs(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(StoreError, match=f"blob {file.name} of the store {tmp_path} is damaged: put back {file}"):
        await read(store, *claims)
    await keep(store, PAYLOAD)

    assert await read(store, *claims) == [PAYLOAD]


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n"])
async def test_reference_cannot_lead_out_of_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="names no blob"):
        await read(LocalStore(tmp_path), StorageDriverClaim(claim_data={"sha256": name}))


async def test_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreError, match=f"the store {tmp_path / 'file'} cannot be written: Not a directory"):
        await keep(LocalStore(tmp_path / "file"), PAYLOAD)


async def test_only_its_owner_may_read_a_store_that_we_made(tmp_path: Path) -> None:
    await keep(LocalStore(tmp_path / "store"), PAYLOAD)

    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


WRITER = """
import asyncio, sys
from pathlib import Path
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverStoreContext
from tarry.store import LocalStore

async def main():
    store = LocalStore(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        await store.store(StorageDriverStoreContext(), [Payload(data=b"%06d" % number * 20_000)])
        print(number, flush=True)

asyncio.run(main())
"""


async def start_writer(directory: Path, count: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(directory), str(count), stdout=asyncio.subprocess.PIPE
    )


async def test_processes_that_store_the_same_blobs_share_one_file_each(tmp_path: Path) -> None:
    writers = [await start_writer(tmp_path, 30) for _ in range(3)]

    assert [await writer.communicate() and writer.returncode for writer in writers] == [0, 0, 0]

    assert len(blobs(tmp_path)) == 30
    assert all(hashlib.sha256(file.read_bytes()).hexdigest() == file.name for file in blobs(tmp_path))


async def test_killed_writer_leaves_every_blob_whole(tmp_path: Path) -> None:
    writer = await start_writer(tmp_path, 1_000_000)
    assert writer.stdout is not None
    acknowledged = [await writer.stdout.readline() for _ in range(50)]

    writer.kill()
    await writer.communicate()

    whole = [file for file in blobs(tmp_path) if not file.name.startswith(".")]
    assert len(whole) >= len(acknowledged)
    assert all(hashlib.sha256(file.read_bytes()).hexdigest() == file.name for file in whole)


@pytest.mark.parametrize(
    ("url", "directory"),
    [
        ("/var/tarry", "/var/tarry"),
        ("file:///var/tarry%20store", "/var/tarry store"),
        ("file://localhost/var/tarry", "/var/tarry"),
        ("~/tarry", str(Path.home() / "tarry")),
        (".tarry/store", str(Path.cwd() / ".tarry/store")),
    ],
)
def test_store_url_of_a_directory_opens_it_without_making_it(url: str, directory: str) -> None:
    store = open_store(url)

    assert isinstance(store, LocalStore)
    assert str(store.directory) == directory


@pytest.mark.parametrize("url", ["", "gs://bucket", "s3://", "s3:///prefix", "file://elsewhere/store", "file://"])
def test_other_store_urls_are_refused_with_the_kinds_there_are(url: str) -> None:
    with pytest.raises(StoreError, match="a directory, file:///directory or s3://bucket/prefix"):
        open_store(url)


def test_s3_without_its_extra_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aioboto3", None)

    with pytest.raises(StoreError, match=r"the store s3://bucket needs the s3 extra: pip install 'tarry\[s3\]'"):
        open_store("s3://bucket/agents")


class ObjectStore(BaseHTTPRequestHandler):
    """As much of S3 as the driver uses, over real HTTP."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]

    def do_HEAD(self) -> None:
        self._answer(200 if self.path in self.objects else 404, b"")

    def do_GET(self) -> None:
        found = self.objects.get(self.path.partition("?")[0])
        self._answer(404 if found is None else 200, found or b"")

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The objects of an S3 server that the environment points to."""
    kept: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (ObjectStore,), {"objects": kept}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{server.server_port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def test_s3_keeps_blobs_under_the_prefix_and_serves_every_loop(objects: dict[str, bytes]) -> None:
    pages = BlobStore(data_converter("s3://bucket/agents/blue"))

    async def put_some() -> list[str]:
        return await asyncio.gather(*(pages.put(["page", number % 2]) for number in range(6)))

    references = asyncio.run(put_some())

    assert len(set(references)) == len(objects) == 2
    assert all(path.startswith("/bucket/agents/blue/v0/d/sha256/") for path in objects)
    # Another loop than the one that connected first.
    assert asyncio.run(pages.get(references[1], list[Any])) == ["page", 1]


def test_missing_s3_object_is_a_store_error_that_names_it(objects: dict[str, bytes]) -> None:
    pages = BlobStore(data_converter("s3://bucket/agents"))
    reference = asyncio.run(pages.put("page"))
    objects.clear()

    with pytest.raises(StoreError, match="bucket=bucket, key=v0/d/sha256/"):
        asyncio.run(pages.get(reference, str))


class Memory(StorageDriver):
    def __init__(self) -> None:
        self.payloads: list[Payload] = []

    def name(self) -> str:
        return "memory"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        self.payloads += payloads
        return [StorageDriverClaim(claim_data={"at": str(self.payloads.index(payload))}) for payload in payloads]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        return [self.payloads[int(claim.claim_data["at"])] for claim in claims]


class Reversed(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"reversed"}, data=p.SerializeToString()[::-1]) for p in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(p.data[::-1]) if p.metadata["encoding"] == b"reversed" else p for p in payloads]


class Page(BaseModel):
    number: int
    lines: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "as_type"),
    [
        (Page(number=1, lines=("ä", "b")), Page),
        ([Page(number=1), Page(number=2)], list[Page]),
        ({"a": [1, None, "x" * 100_000]}, dict[str, Any]),
        (None, type(None)),
        ("", str),
    ],
)
async def test_blob_is_kept_whatever_its_size_and_read_typed(value: Any, as_type: type[Any]) -> None:
    driver = Memory()
    converter = DataConverter(
        payload_converter_class=pydantic_data_converter.payload_converter_class,
        external_storage=ExternalStorage(drivers=[driver]),
    )
    pages = BlobStore(converter)

    reference = await pages.put(value)

    assert len(driver.payloads) == 1
    assert reference.isascii()
    assert len(reference) < 512
    assert await pages.get(reference, as_type) == value


async def test_codec_of_the_converter_applies_to_blobs(tmp_path: Path) -> None:
    converter = DataConverter(
        payload_codec=Reversed(), external_storage=ExternalStorage(drivers=[LocalStore(tmp_path)])
    )
    pages = BlobStore(converter)

    reference = await pages.put("secret")

    [file] = blobs(tmp_path)
    assert b"secret" not in file.read_bytes()
    assert b"terces" in file.read_bytes()
    assert await pages.get(reference, str) == "secret"


async def test_equal_values_have_one_reference_in_a_local_store(tmp_path: Path) -> None:
    pages = BlobStore(data_converter(str(tmp_path)))

    assert await pages.put({"a": 1}) == await pages.put({"a": 1})
    assert len(blobs(tmp_path)) == 1


async def test_converter_that_keeps_values_inline_gives_no_reference() -> None:
    inline = DataConverter(
        external_storage=ExternalStorage(drivers=[Memory()], driver_selector=lambda context, payload: None)
    )

    with pytest.raises(StoreError, match="kept a payload inline"):
        await BlobStore(inline).put("page")
    with pytest.raises(StoreError, match="no external storage"):
        BlobStore(DataConverter())


@pytest.mark.parametrize("reference", ["", "no base64!", "aGVsbG8=", "CgA=", "é", "\ud800"])
async def test_text_that_is_no_reference_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(StoreError, match="is no reference to a blob"):
        await BlobStore(data_converter(str(tmp_path))).get(reference, str)


async def test_blob_of_another_type_is_refused_in_one_line(tmp_path: Path) -> None:
    pages = BlobStore(data_converter(str(tmp_path)))
    reference = await pages.put(["a", "list"])

    with pytest.raises(StoreError) as refused:
        await pages.get(reference, Page)

    assert "\n" not in str(refused.value)
    assert "Page" in str(refused.value)
