"""Definitions that annotations of the chart's values name (`scripts.chart_docs`)."""

from __future__ import annotations

from typing import Any

SLUG = "^[a-z0-9]+(-[a-z0-9]+)*$"

PORT_NAME = "^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$"

LABEL_VALUE = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"

_slug = {"type": "string", "pattern": SLUG, "maxLength": 63}
_text = {"type": "string"}
_texts = {"type": "object", "additionalProperties": _text}
_array, _object = {"type": "array"}, {"type": "object"}
_zone = {"type": "string", "pattern": LABEL_VALUE}
_port = {"type": "integer", "minimum": 1, "maximum": 65535}
_pod = {"$ref": "#/definitions/pod"}
_resources = {"$ref": "#/definitions/resources"}
_quantity = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"},
    ]
}


def _strict(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object", "additionalProperties": False, "properties": properties
    }  # fmt: skip
    return {**found, "required": list(required)} if required else found


_node = _strict(("name",), name=_slug, region=_text, domain=_slug)

_application = _strict(
    ("name", "nodes"),
    name=_slug,
    nodes={"anyOf": [{"type": "integer", "minimum": 1}, {**_array, "items": _node, "minItems": 1}]},
    region=_text,
    zone=_zone,
    nodeSelector=_texts,
    tolerations=_array,
)

_service = _strict(
    type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    annotations=_texts,
)

_class = {"class": {"type": ["string", "null"]}}
_storage = _strict((), enabled={"type": "boolean"}, size=_quantity, **_class)

_site = _strict(
    ("name",),
    name=_slug,
    region=_text,
    zone=_zone,
    ports={
        **_array,
        "items": _strict(
            ("name", "port"), name={"type": "string", "pattern": PORT_NAME}, port=_port
        ),
    },
    clients=_array,
    egress=_array,
    service=_service,
    storage=_storage,
    resources=_resources,
    pod=_pod,
)

DEFINITIONS: dict[str, Any] = {
    "slugOrNothing": {"type": "string", "pattern": f"{SLUG}|^$", "maxLength": 63},
    "names": {**_array, "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
    "texts": _texts,
    "texts_list": {**_array, "items": {"type": "string", "minLength": 1}},
    "memory": {"type": "string", "pattern": "^[1-9][0-9]*[kmg]$"},
    "quantity": _quantity,
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "ports": {**_array, "items": _port, "minItems": 1},
    "resources": _strict(
        requests={**_object, "additionalProperties": _quantity},
        limits={**_object, "additionalProperties": _quantity},
        claims=_array,
    ),
    "applications": {**_array, "items": _application, "minItems": 1},
    "sites": {**_array, "items": _site},
}

ROOT_PROPERTIES: dict[str, Any] = {
    "global": {**_object, "description": "Of a chart that has this one as a part; not read."},
    "enabled": {
        "type": "boolean",
        "description": "Of a chart that has this one as a part: whether it does.",
    },
}
"""Values that a parent's may have without the chart reading them."""
