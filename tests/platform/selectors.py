"""Which objects a selector chooses: by labels, and by fields."""

from __future__ import annotations

import re
from typing import Any

from tests.platform.kinds import NOTHING, Object

_term = re.compile(
    r"""\s*(?P<key>[\w./-]+)\s+(?P<not>not)?in\s*\((?P<values>[^)]*)\)
    |\s*(?P<absent>!)?\s*(?P<name>[\w./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[\w./-]*))?""",
    re.VERBOSE,
)


def matches_labels(labels: dict[str, str], selector: str) -> bool:
    """Whether labels are chosen by a selector as it stands in a URL."""
    at = 0
    while at < len(selector):
        found = _term.match(selector, at)
        if found is None or found.end() == at:
            raise ValueError(f"{selector!r} cannot be a selector")
        at = found.end() + 1
        if key := found["key"]:
            chosen = labels.get(key) in [each.strip() for each in found["values"].split(",")]
            holds = chosen != bool(found["not"])
        elif found["op"] is None:
            holds = (found["name"] in labels) != bool(found["absent"])
        else:
            holds = (labels.get(found["name"]) == found["value"]) != (found["op"] == "!=")
        if not holds:
            return False
    return True


def matches_fields(found: Object, selector: str) -> bool:
    """Whether an object's fields are as `a.b=c,d!=e` says."""
    for part in filter(None, selector.split(",")):
        path, wanted = part.replace("==", "=").rsplit("=", 1)
        is_not = path.endswith("!")
        value: Any = found
        for step in path.removesuffix("!").split("."):
            value = (value or NOTHING).get(step)
        if (("" if value is None else str(value)) == wanted) == is_not:
            return False
    return True


def chosen(labels: dict[str, str], selector: Object | None) -> bool:
    """Whether labels are chosen by a selector as it stands in an object; by none, nothing is."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or NOTHING).items():
        if labels.get(key) != value:
            return False
    return all(
        _holds(labels, each["key"], each["operator"], each.get("values") or [])
        for each in selector.get("matchExpressions") or ()
    )


def _holds(labels: dict[str, str], key: str, operator: str, values: list[str]) -> bool:
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            raise ValueError(f"{operator} is no operator of selectors")


def has_node_labels(labels: dict[str, str], spec: Object) -> bool:
    """Whether a pod may be on a node with these labels."""
    for key, value in (spec.get("nodeSelector") or NOTHING).items():
        if labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or NOTHING).get("nodeAffinity") or NOTHING
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(
        chosen(labels, {"matchExpressions": term.get("matchExpressions")})
        for term in required["nodeSelectorTerms"]
    )
