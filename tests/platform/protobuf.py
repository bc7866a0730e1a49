"""Kubernetes' protobuf, in which clients written in Go send what they make of their own, and how
they delete."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from tests.platform.kinds import Object
from tests.platform.objects import ApiError

PROTOBUF = "application/vnd.kubernetes.protobuf"

MAGIC = b"k8s\x00"

BYTES, VARINT = 2, 0


def read(body: bytes) -> Object:
    """What a client sends.

    Raises
    ------
    ApiError
        It is another kind of object.
    """
    unknown = dict(_fields(body.removeprefix(MAGIC)))
    match dict(_fields(unknown[1]))[2].decode():
        case "Secret":
            return _secret(unknown[2])
        case "ConfigMap":
            return _config_map(unknown[2])
        case "Namespace":
            metadata = _metadata(dict(_fields(unknown[2]))[1])
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        case "DeleteOptions":
            return _options(unknown.get(2, b""))
        case kind:
            raise ApiError(415, "UnsupportedMediaType", f"the rig reads no {kind} in protobuf")


def _options(message: bytes) -> Object:
    options: Object = {}
    for number, value in _numbers(message):
        if number == 1:
            options["gracePeriodSeconds"] = value
    for number, value in _fields(message):
        if number == 4:
            options["propagationPolicy"] = value.decode()
    return options


def _secret(message: bytes) -> Object:
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {}}
    for number, value in _fields(message):
        if number == 1:
            secret["metadata"] = _metadata(value)
        elif number == 2:
            key, data = _entry(value)
            secret["data"][key] = base64.b64encode(data).decode()
        elif number == 3:
            secret["type"] = value.decode()
    return secret


def _config_map(message: bytes) -> Object:
    found: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    for number, value in _fields(message):
        if number == 1:
            found["metadata"] = _metadata(value)
        elif number == 2:
            key, text = _entry(value)
            found.setdefault("data", {})[key] = text.decode()
        elif number == 3:
            key, data = _entry(value)
            found.setdefault("binaryData", {})[key] = base64.b64encode(data).decode()
    return found


def _metadata(message: bytes) -> Object:
    texts = {1: "name", 2: "generateName", 3: "namespace", 5: "uid", 6: "resourceVersion"}
    maps = {11: "labels", 12: "annotations"}
    metadata: Object = {}
    for number, value in _fields(message):
        if number in texts and value:
            metadata[texts[number]] = value.decode()
        elif number in maps:
            key, text = _entry(value)
            metadata.setdefault(maps[number], {})[key] = text.decode()
    return metadata


def _entry(message: bytes) -> tuple[str, bytes]:
    fields = dict(_fields(message))
    return fields[1].decode(), fields.get(2, b"")


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are texts, bytes or messages."""
    for number, value in _all(message):
        if isinstance(value, bytes):
            yield number, value


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """The fields of a message that are numbers."""
    for number, value in _all(message):
        if isinstance(value, int):
            yield number, value


def _all(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 == VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
        elif tag & 7 == BYTES:
            length, at = _varint(message, at)
            yield tag >> 3, message[at : at + length]
            at += length
        else:
            raise ApiError(400, "BadRequest", f"unexpected protobuf type {tag & 7}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
