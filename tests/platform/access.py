"""Who may do what: each request of a pod is judged by the Roles that are bound to its account."""

from __future__ import annotations

import secrets

from tests.platform.kinds import BINDING, NOTHING, ROLE, SERVICE_ACCOUNT, Kind, Object
from tests.platform.objects import ApiError, Objects

ADMIN = "admin"
"""The user of whoever has the rig's own token, who may do everything."""


class Access:
    """Tokens and rights.

    Attributes
    ----------
    admin_token
        Of whoever may do everything.
    refused
        What was asked for without a right to it: `account: verb resource`.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.admin_token = secrets.token_hex(16)
        self._users = {self.admin_token: ADMIN}
        self._tokens: dict[str, str] = {}
        self.refused: list[str] = []
        self._used: set[str] = set()

    def token_of(self, namespace: str, account: str) -> str:
        """The token that a pod finds."""
        user = f"system:serviceaccount:{namespace}:{account}"
        if user not in self._tokens:
            token = secrets.token_hex(16)
            self._tokens[user] = token
            self._users[token] = user
        return self._tokens[user]

    def user(self, authorization: str) -> str:
        """Of a request's header.

        Raises
        ------
        ApiError
            Nobody has this token.
        """
        token = authorization.removeprefix("Bearer ")
        if not token:
            return "system:anonymous"
        if token not in self._users:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return self._users[token]

    def check(
        self, user: str, verb: str, kind: Kind, subresource: str, namespace: str, name: str
    ) -> None:
        """Refuse a request that no Role permits.

        Raises
        ------
        ApiError
            With what Kubernetes says.
        """
        if user == ADMIN:
            return
        resource = kind.plural + (f"/{subresource}" if subresource else "")
        if self._permits(user, verb, kind.group, resource, namespace, name):
            self._used.add(f"{user}: {verb} {resource}")
            return
        self.refused.append(f"{user}: {verb} {resource}")
        named = f' "{name}"' if name else ""
        message = (
            f'{kind.plural}{named} is forbidden: User "{user}" cannot {verb} resource "{resource}" '
            f'in API group "{kind.group}" in the namespace "{namespace}"'
        )
        details: Object = {"name": name, "group": kind.group, "kind": kind.plural}
        raise ApiError(403, "Forbidden", message, details)

    def unused(self, namespace: str) -> set[str]:
        """Rights that Roles of a namespace grant its accounts and nobody has made use of: `account:
        verb resource`."""
        granted: set[str] = set()
        for binding in self._objects.list(BINDING, namespace):
            role = self._objects.find(ROLE, namespace, binding["roleRef"]["name"]) or NOTHING
            for subject in binding.get("subjects") or ():
                user = f"system:serviceaccount:{namespace}:{subject['name']}"
                granted |= {
                    f"{user}: {verb} {resource}"
                    for rule in role.get("rules") or ()
                    for verb in rule["verbs"]
                    for resource in rule["resources"]
                }
        return granted - self._used

    def _permits(
        self, user: str, verb: str, group: str, resource: str, namespace: str, name: str
    ) -> bool:
        for binding in self._objects.list(BINDING, namespace) if namespace else ():
            if not any(_is(user, subject, namespace) for subject in binding.get("subjects") or ()):
                continue
            role = self._objects.find(ROLE, namespace, binding["roleRef"]["name"])
            for rule in (role or NOTHING).get("rules") or ():
                names: list[str] = rule.get("resourceNames") or []
                if (
                    _holds(rule.get("verbs"), verb)
                    and _holds(rule.get("apiGroups"), group)
                    and _holds(rule.get("resources"), resource)
                    and (not names or name in names)
                ):
                    return True
        return False


def _holds(allowed: list[str] | None, value: str) -> bool:
    return allowed is not None and (value in allowed or "*" in allowed)


def _is(user: str, subject: Object, namespace: str) -> bool:
    if subject["kind"] != SERVICE_ACCOUNT.kind:
        return subject["name"] == user
    place = subject.get("namespace", namespace)
    return user == f"system:serviceaccount:{place}:{subject['name']}"
