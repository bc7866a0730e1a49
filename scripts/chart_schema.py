"""Definitions that annotations of the chart's values name (`scripts.chart_docs`)."""

from __future__ import annotations

from typing import Any

SLUG = "^[a-z0-9]+(-[a-z0-9]+)*$"

PORT_NAME = "^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$"

LABEL_VALUE = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"

NAME = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
"""Of a Secret, a class, a domain."""

LABEL = "^([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"

SERVER = r"([^\s:/,\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"

NUMBER = r"^ *[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)? *"
"""Of a quantity, as manifests have it (`orchestrator.documents.units`)."""

BYTES = "([KMG]i?)?B"


def _or_nothing(pattern: str) -> str:
    """That, or an empty text."""
    return f"{pattern}|^$"


_slug = {"type": "string", "pattern": SLUG, "maxLength": 63}
_text = {"type": "string"}
_texts = {"type": "object", "additionalProperties": _text}
_annotations = {**_texts, "propertyNames": {"pattern": LABEL}}
_labels = {
    **_annotations,
    "additionalProperties": {"type": "string", "pattern": _or_nothing(LABEL_VALUE)},
}
_name = {"type": "string", "pattern": NAME, "maxLength": 253}
_host = r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
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
    nodeSelector=_labels,
    tolerations=_array,
)

_service = _strict(
    type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    annotations=_annotations,
)

_name_or_null = {**_name, "type": ["string", "null"]}
_class = {"class": _name_or_null}
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
    "savepoint": {"type": "string", "pattern": SLUG, "maxLength": 64},
    "slugOrNothing": {"type": "string", "pattern": _or_nothing(SLUG), "maxLength": 63},
    "beginning": {"type": "string", "pattern": "^([a-z]([-a-z0-9.]*[a-z0-9])?)?$"},
    "name": _name,
    "nameOrNothing": {**_name, "pattern": _or_nothing(NAME)},
    "nameOrNull": _name_or_null,
    "names": {**_array, "items": _name, "uniqueItems": True},
    "key": {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$", "maxLength": 253},
    "servers": {"type": "string", "pattern": f"^({SERVER}(, *{SERVER})*(/\\S*)?)?$"},
    "hostOrNothing": {"type": "string", "pattern": _or_nothing(_host)},
    "hosts": {**_array, "items": {"type": "string", "pattern": _host}},
    "networks": {
        **_array,
        "items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"},
        # Of none, Kubernetes would make all.
        "minItems": 1,
    },
    "time": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"},
    "duration": {"type": ["string", "null"], "pattern": f"{NUMBER}(us|µs|ms|s|min|h) *$"},
    "size": {"type": ["string", "null"], "pattern": f"{NUMBER}({BYTES}|[kmg]) *$"},
    "rate": {"type": ["string", "null"], "pattern": f"{NUMBER}{BYTES}/s *$"},
    "texts": _texts,
    "labels": _labels,
    "annotations": _annotations,
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
