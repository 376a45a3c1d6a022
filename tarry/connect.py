"""The connection to Temporal, and how values cross it.

The server's address, namespace, TLS and API key come from Temporal's own variables and file, as its
command line reads them; every client and worker of a deployment uses this converter and one store.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import functools
import sys
import time
from datetime import timedelta
from typing import Any

from pydantic_core import from_json
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
    DefaultPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
)
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tarry.codec import Codec, Keyring, load_keyring
from tarry.codec.unreadable import ClosedConverter, EncryptedConverter
from tarry.core.attributes import ATTRIBUTES
from tarry.namespace_commands import NamespaceCommands
from tarry.seeing.store import CountedStore
from tarry.seeing.tracing import plugins
from tarry.settings import Settings, load_settings
from tarry.store import is_blob_name, open_store

DEFAULT_ADDRESS = "localhost:7233"
INLINE_BYTES = 32 * 1024
"""Payloads from this size on go to the store: no batch of commands nears 4 MiB (spec §4.11)."""

EXIT_PAUSE = 0.1
"""Seconds at the end of a process: a thread of the SDK that still calls into an interpreter which takes itself down
aborts the process, and a finished script would look like a crash."""

_ATTEMPT = timedelta(seconds=5)
_PAUSE = timedelta(milliseconds=100)


class ConnectError(Exception):
    """Temporal cannot be used as it is configured. One line: what was tried, what to do."""


class ServerUnreachable(ConnectError):
    """Nothing answered; a later attempt may."""


class _StrictJson(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON, refusing what is not JSON. Values are cleaned where they enter, not here (spec §4.11)."""

    def to_payload(self, value: Any) -> Payload | None:
        payload = super().to_payload(value)
        # The bare words are looked for first: to parse every payload again would cost each of them.
        if payload is not None and (b"NaN" in payload.data or b"Infinity" in payload.data):
            _refuse_non_finite(payload.data, value)
        return payload


def _refuse_non_finite(data: bytes, value: Any) -> None:
    try:
        from_json(data, allow_inf_nan=False)
    except ValueError:
        raise ValueError(f"a {type(value).__name__} holds NaN or an infinity, which is not JSON") from None


# For the whole process: the SDK makes a payload converter for each step of a workflow, and type adapters are costly.
_JSON = _StrictJson()
_KINDS = (
    *(
        _JSON if isinstance(kind, JSONPlainPayloadConverter) else kind
        for kind in DefaultPayloadConverter.default_encoding_payload_converters
    ),
    ClosedConverter(),
    EncryptedConverter(),
)


class _PayloadConverter(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(*_KINDS)


class _Storage(ExternalStorage):
    """Takes for a reference only what can be one of ours.

    Any shell can mark an input as a reference, and the SDK resolves those before our code sees them: one that names
    nothing would stop its workflow for ever. Left as it is, it is an input that cannot be read, and is refused.
    """

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        try:
            reference = super()._decode_reference(payload)
        except Exception:  # of whatever was written in its place
            return None
        if reference is None or reference.driver_name not in {driver.name() for driver in self.drivers}:
            return None
        return reference if any(map(is_blob_name, reference.claim_data.values())) else None


def data_converter(store_url: str, keyring: Keyring | None = None) -> DataConverter:
    """How values become payloads: valid JSON by pydantic, from 32 KiB on kept in the store at `store_url`.

    With a key that is active they are encrypted, also those in the store, and failures with them (spec §20.1). NaN,
    infinities in plain data, lone surrogates and what is not JSON data raise ValueError when encoded.

    Raises:
        StoreError: no store can be at `store_url`.
    """
    storage = _Storage(drivers=[CountedStore(open_store(store_url))], payload_size_threshold=INLINE_BYTES)
    encrypts = keyring is not None and keyring.active is not None
    return DataConverter(
        payload_converter_class=_PayloadConverter,
        external_storage=storage,
        payload_codec=Codec(keyring) if keyring else None,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes if encrypts else DefaultFailureConverter,
    )


def converter_of(settings: Settings) -> DataConverter:
    """The data converter of a deployment: its store and its keys, which are read now.

    Raises:
        SettingsError, StoreError: a key cannot be read, or no store can be where the settings say.
    """
    return data_converter(settings.store, load_keyring(settings))


async def connect(
    settings: Settings | None = None, *, wait: timedelta = timedelta(0), to_prepare: bool = False
) -> Client:
    """Connect to the configured server and namespace.

    Args:
        settings: read from the environment by default.
        wait: how long a server that does not answer is tried again.
        to_prepare: the namespace need not be there yet.

    Raises:
        ConnectError: the configuration cannot be read, nothing answers, or the namespace is not there.
        SettingsError, StoreError: our own settings are not allowed.
    """
    settings = settings or load_settings()
    config = _client_config()
    converter = converter_of(settings)
    attempts = AsyncRetrying(
        stop=stop_after_delay(wait),
        wait=wait_fixed(_PAUSE),
        retry=retry_if_exception_type(ServerUnreachable),
        reraise=True,
    )
    client: Client = await attempts(_connect_once, config, converter, to_prepare)
    _pause_at_exit()
    return client


@functools.cache
def _pause_at_exit() -> None:
    """However many connections a process makes, its end waits once."""
    atexit.register(time.sleep, EXIT_PAUSE)


def sending_inline(client: Client) -> Client:
    """The same connection, but what it sends is never put into the store: a reader need not share the sender's.

    For what comes from processes of any folder and any host, and is bounded below Temporal's limit of 2 MiB. What the
    store holds is still read from there.
    """
    config = client.config()
    converter = config["data_converter"]
    if converter.external_storage is not None:
        storage = dataclasses.replace(converter.external_storage, payload_size_threshold=sys.maxsize)
        config["data_converter"] = dataclasses.replace(converter, external_storage=storage)
    return Client(**config)


def is_server_configured() -> bool:
    """Whether Temporal's settings name a server. Settings that cannot be read count: `connect` explains them."""
    try:
        return "target_host" in ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError):
        return True


def _client_config() -> ClientConnectConfig:
    try:
        return ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise ConnectError(
            f"Temporal's settings cannot be read ({reason}): "
            "check TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE and TEMPORAL_TLS_*"
        ) from error


async def _connect_once(config: ClientConnectConfig, converter: DataConverter, to_prepare: bool) -> Client:
    address = config.setdefault("target_host", DEFAULT_ADDRESS)
    try:
        async with asyncio.timeout(_ATTEMPT.total_seconds()):
            client = await Client.connect(**config, data_converter=converter, plugins=plugins())
            if not to_prepare:
                await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    except TimeoutError as error:
        raise ServerUnreachable(f"no Temporal server at {address} (no answer): {_START}") from error
    except ValueError as error:
        raise ConnectError(f"{address} cannot be connected to as configured ({error}): {_CHECK}") from error
    except RPCError as error:
        raise _refusal(error, address, config.get("namespace", "default")) from error
    except RuntimeError as error:
        raise _failure(str(error), address) from error
    return client


_START = "start one with `tarry dev`, or set TEMPORAL_ADDRESS"
_CHECK = "check TEMPORAL_ADDRESS (host:port), TEMPORAL_API_KEY and TEMPORAL_TLS_*"

_FAILURES = (
    ("ConnectionRefused", "connection refused", _START),
    ("dns error", "unknown host", _START),
    ("Unauthenticated", "it refused the API key or certificate", _CHECK),
    ("PermissionDenied", "it refused the API key or certificate", _CHECK),
    ("InvalidContentType", "it does not speak TLS", _CHECK),
    ("PrivateKey", "the TLS key cannot be read", _CHECK),
    ("ertificate", "the TLS certificates do not fit", _CHECK),
    ("", "what answers is no Temporal server, or wants TLS", _CHECK),
)
"""A sign in the transport's error, which itself runs over several nested structures; what it means; what to do."""


def _failure(text: str, address: str) -> ServerUnreachable:
    reason, advice = next((reason, advice) for sign, reason, advice in _FAILURES if sign in text)
    return ServerUnreachable(f"no Temporal server at {address} ({reason}): {advice}")


def _refusal(error: RPCError, address: str, namespace: str) -> ConnectError:
    if error.status == RPCStatusCode.NOT_FOUND:
        return ConnectError(
            f"namespace {namespace} does not exist at {address}: set TEMPORAL_NAMESPACE, or create it with "
            "`tarry namespace init`, or without search attributes with "
            f"`temporal operator namespace create --namespace {namespace} --address {address}`"
        )
    if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        return ConnectError(f"no access to namespace {namespace} at {address}: {_CHECK}")
    reason = error.status.name.lower().replace("_", " ")
    return ServerUnreachable(f"no Temporal server at {address} ({reason}): {_START}")


async def check_search_attributes(client: Client) -> None:
    """Return when every search attribute of ours is registered in the client's namespace (spec §8.4).

    Where listing them is not allowed, as on Temporal Cloud, visibility is asked and their types go unchecked.

    Raises:
        ConnectError: one is missing or of another type; it holds the command that creates what is missing.
    """
    registered, commands = await registered_attributes(client), commands_of(client)
    missing = [attribute for attribute in ATTRIBUTES if attribute.name not in registered]
    if missing:
        raise ConnectError(
            f"search attributes are not registered ({', '.join(attribute.name for attribute in missing)}): "
            f"run `tarry namespace init`, or `{commands.create_attributes(missing)}`"
        )
    for attribute in ATTRIBUTES:
        actual = registered[attribute.name]
        if actual not in (attribute.type, None):
            raise ConnectError(
                f"search attribute {attribute.name} is registered as {actual}, not {attribute.type}: remove it with "
                f"`{commands.remove_attribute(attribute)}`, then `{commands.create_attributes([attribute])}`"
            )


async def registered_attributes(client: Client) -> dict[str, str | None]:
    """The type of each registered attribute; None where it is not told.

    Raises:
        ConnectError: the server refuses to answer.
    """
    try:
        answer = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            raise _refusal(error, commands_of(client).address, client.namespace) from error
        names = [attribute.name for attribute in ATTRIBUTES]
        return {name: None for name in names if await is_known_to_visibility(client, name)}
    return {name: _type_name(kind) for name, kind in answer.custom_attributes.items()}


def _type_name(kind: IndexedValueType.ValueType) -> str:
    words = IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").split("_")
    return "".join(word.capitalize() for word in words)


async def is_known_to_visibility(client: Client, name: str) -> bool:
    """Whether queries may name that attribute.

    Raises:
        ConnectError: the server refuses to answer.
    """
    try:
        await client.count_workflows(f"{name} IS NULL")
    except RPCError as error:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            return False
        raise _refusal(error, commands_of(client).address, client.namespace) from error
    return True


def commands_of(client: Client) -> NamespaceCommands:
    """What a person may be told to run for the client's namespace."""
    return NamespaceCommands(client.namespace, client.service_client.config.target_host)
