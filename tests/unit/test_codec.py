"""What a payload becomes under a key, and what becomes of one that does not open (spec §20)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ActivityError, ApplicationError

from tarry.codec import Codec, Key, Keyring, KeysError, MissingKey, UnreadablePayload, load_keyring
from tarry.codec.keys import key_text
from tarry.codec.payloads import OVERHEAD
from tarry.codec.unreadable import ENCODING, KEY_ID
from tarry.connect import data_converter
from tarry.core import run as machine
from tarry.settings import Settings
from tarry.store import BlobStore, StoreError
from tests.support.keys import files_with
from workflows import ends

OLD, NEW = Key("2026-05", b"o" * 32), Key("2026-11", b"n" * 32)
SECRET = "the code is 4711"


def ring(*keys: Key, active: Key | None = None, reads_clear: bool = False) -> Keyring:
    return Keyring({key.id: key for key in keys}, active or keys[0], reads_clear)


def clear(text: str = SECRET) -> Payload:
    return Payload(metadata={"encoding": b"json/plain", "type": b"greeting"}, data=text.encode())


async def encrypted(keyring: Keyring, payload: Payload | None = None) -> Payload:
    [made] = await Codec(keyring).encode([payload or clear()])
    return made


async def opened(keyring: Keyring, payload: Payload) -> Payload:
    [made] = await Codec(keyring).decode([payload])
    return made


def reason(payload: Payload) -> str:
    """Why nobody reads it."""
    with pytest.raises(UnreadablePayload) as refused:
        data_converter("/nowhere").payload_converter.from_payload(payload)
    return str(refused.value)


async def test_a_payload_is_encrypted_whole_and_names_its_key_alone() -> None:
    made = await encrypted(ring(NEW, OLD))

    assert dict(made.metadata) == {"encoding": ENCODING, KEY_ID: b"2026-11"}
    assert b"4711" not in made.SerializeToString()
    assert b"greeting" not in made.SerializeToString()
    assert await opened(ring(NEW), made) == clear()


@given(st.binary(max_size=2_000), st.dictionaries(st.text(max_size=10), st.binary(max_size=20), max_size=3))
async def test_whatever_is_encrypted_is_read_again_and_grows_by_a_bounded_size(
    data: bytes, metadata: dict[str, bytes]
) -> None:
    payload = Payload(metadata=metadata, data=data)

    made = await encrypted(ring(NEW), payload)

    assert await opened(ring(OLD, NEW), made) == payload
    assert made.ByteSize() <= payload.ByteSize() + OVERHEAD


async def test_equal_payloads_are_not_seen_to_be_equal() -> None:
    assert await encrypted(ring(NEW)) != await encrypted(ring(NEW))


async def test_after_a_rotation_both_keys_read_and_the_active_one_writes() -> None:
    before = await encrypted(ring(OLD))
    rotated = ring(OLD, NEW, active=NEW)

    assert await opened(rotated, before) == clear()
    assert (await encrypted(rotated)).metadata[KEY_ID] == b"2026-11"


async def test_a_key_that_is_missing_is_named_and_nothing_is_passed_on() -> None:
    made = await encrypted(ring(OLD))

    with pytest.raises(MissingKey, match="encrypted with key 2026-05, which this process does not have"):
        await opened(ring(NEW), made)


async def test_without_any_keys_a_reader_is_told_which_one_is_missing() -> None:
    assert "encrypted with key 2026-05" in reason(await encrypted(ring(OLD)))


async def test_clear_payloads_are_read_while_the_flag_allows_it_and_refused_otherwise() -> None:
    assert await opened(ring(NEW, reads_clear=True), clear()) == clear()
    assert "it is not encrypted" in reason(await opened(ring(NEW), clear()))


async def test_while_no_key_is_active_payloads_are_written_as_they_are() -> None:
    handed_out = Keyring({OLD.id: OLD}, None, reads_clear=True)

    assert await encrypted(handed_out) == clear()


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 12, b"x" * 200])
async def test_what_a_key_does_not_fit_is_passed_on_closed(damage: bytes) -> None:
    forged = Payload(metadata={"encoding": ENCODING, KEY_ID: b"2026-11"}, data=damage)

    assert "it does not fit key 2026-11" in reason(await opened(ring(NEW), forged))


async def test_a_payload_moved_under_another_key_id_does_not_open() -> None:
    twin = Key("twin", NEW.secret)
    made = await encrypted(ring(NEW))
    made.metadata[KEY_ID] = b"twin"

    assert "it does not fit key twin" in reason(await opened(ring(twin), made))


async def test_a_hostile_key_id_is_told_as_text_of_one_line() -> None:
    forged = Payload(metadata={"encoding": ENCODING, KEY_ID: b"\xff\n\x1b[31m" + b"x" * 500}, data=b"x")

    with pytest.raises(MissingKey) as missing:
        await opened(ring(NEW), forged)

    assert str(missing.value).isprintable()
    assert len(str(missing.value)) < 300


async def test_failures_are_encrypted_with_their_messages_and_traces() -> None:
    converter = data_converter("/nowhere", ring(NEW))
    failure = Failure()
    try:
        raise ApplicationError(SECRET, {"also": SECRET}, type="Broken") from ValueError(SECRET)
    except ApplicationError as error:
        await converter.encode_failure(error, failure)

    assert b"4711" not in failure.SerializeToString()
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    assert failure.application_failure_info.type == "Broken"

    read = await converter.decode_failure(failure)
    assert (str(read), str(read.__cause__)) == (f"Broken: {SECRET}", f"ValueError: {SECRET}")


async def test_without_keys_payloads_and_failures_are_what_they_always_were() -> None:
    converter = data_converter("/nowhere")
    failure = Failure()
    await converter.encode_failure(ApplicationError(SECRET), failure)

    assert converter.payload_codec is None
    assert [payload.data for payload in await converter.encode([{"a": 1}])] == [b'{"a":1}']
    assert (failure.message, failure.HasField("encoded_attributes")) == (SECRET, False)


async def test_what_the_store_keeps_is_encrypted(tmp_path: Path) -> None:
    blobs = BlobStore(data_converter(str(tmp_path), ring(OLD)))

    reference = await blobs.put({"secret": SECRET * 3_000})

    assert files_with("4711", tmp_path) == []
    rotated = BlobStore(data_converter(str(tmp_path), ring(OLD, NEW, active=NEW)))
    assert await rotated.get(reference, dict[str, str]) == {"secret": SECRET * 3_000}


async def test_a_blob_whose_key_is_missing_names_it(tmp_path: Path) -> None:
    reference = await BlobStore(data_converter(str(tmp_path), ring(OLD))).put("x")

    with pytest.raises(StoreError, match="key 2026-05, which this process does not have"):
        await BlobStore(data_converter(str(tmp_path), ring(NEW))).get(reference, str)


# Keys by reference.


def loaded(environment: Mapping[str, str] | None = None, **settings: object) -> Keyring | None:
    return load_keyring(Settings.model_validate(settings), environment or {})


def test_without_keys_there_is_no_codec() -> None:
    assert loaded() is None


def test_keys_are_read_from_files_and_variables_and_one_is_active(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(key_text(OLD.secret) + "\n")

    found = loaded({"NEW_KEY": key_text(NEW.secret)}, codec_keys=f"a=file:{file} b=env:NEW_KEY", codec_active="b")

    assert found is not None
    assert {id: key.secret for id, key in found.keys.items()} == {"a": OLD.secret, "b": NEW.secret}
    assert (found.active, found.reads_clear) == (found.keys["b"], False)


def test_while_keys_are_handed_out_nothing_is_encrypted_and_all_is_read() -> None:
    found = loaded({"K": key_text(NEW.secret)}, codec_keys="a=env:K", codec_active="none")

    assert found is not None
    assert (found.active, found.reads_clear) == (None, True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"codec_keys": "a=env:NOPE", "codec_active": "a"}, "key a is missing: the variable NOPE is not set"),
        ({"codec_keys": "a=env:BLANK", "codec_active": "a"}, "key a is missing: the variable BLANK is not set"),
        ({"codec_keys": "a=file:/nowhere/a", "codec_active": "a"}, "key a is missing: /nowhere/a cannot be read"),
        ({"codec_keys": "a=env:SHORT", "codec_active": "a"}, "key a at env:SHORT is no key: 32 bytes as base64"),
        ({"codec_keys": "a=env:TEXT", "codec_active": "a"}, "key a at env:TEXT is no key: 32 bytes as base64"),
        ({"codec_keys": "a=env:GOOD a=env:GOOD", "codec_active": "a"}, "TARRY_CODEC_KEYS names two keys a"),
        ({"codec_keys": "a=env:GOOD"}, "TARRY_CODEC_ACTIVE is missing: name the key that encrypts (a)"),
        ({"codec_keys": "a=env:GOOD", "codec_active": "b"}, "TARRY_CODEC_ACTIVE=b is not among TARRY_CODEC_KEYS (a)"),
        ({"codec_active": "b"}, "TARRY_CODEC_ACTIVE=b names no key: set TARRY_CODEC_KEYS too"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_in_one_line(settings: dict[str, str], said: str) -> None:
    environment = {"GOOD": key_text(NEW.secret), "SHORT": "c2hvcnQ=", "TEXT": "not base64! " * 4, "BLANK": " "}

    with pytest.raises(KeysError) as refused:
        loaded(environment, **settings)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_holds_a_key_does_not_show_it() -> None:
    found = loaded({"K": key_text(NEW.secret)}, codec_keys="a=env:K", codec_active="a")
    assert found is not None

    shown = f"{found} {found.keys['a'].fingerprint} {Codec(found)}"

    assert repr(NEW.secret) not in shown
    assert key_text(NEW.secret) not in shown
    assert NEW.secret.hex() not in shown


# What workflows make of a worker that lacks a key.


def keyless() -> ActivityError:
    """As an activity ends whose worker could not read its input."""
    error = ActivityError(
        "Activity task failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="",
        activity_id="",
        retry_state=None,
    )
    error.__cause__ = ApplicationError("Failed decoding arguments")
    error.__cause__.__cause__ = ApplicationError("it is encrypted with key new", type=MissingKey.__name__)
    return error


def test_a_model_request_that_a_worker_without_the_key_took_is_sent_again() -> None:
    assert ends.of_model_call(keyless(), stopped=False) == machine.WorkerStopped("")
    assert ends.of_model_call(keyless(), stopped=True) == machine.Aborted("")
