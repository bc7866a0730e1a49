"""What a pod finds: its environment, and its volumes as folders on this machine."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.platform.access import Access
from tests.platform.kinds import (
    CLAIM,
    CONFIG_MAP,
    NOTHING,
    SECRET,
    SERVICE_ACCOUNT,
    Object,
    is_object,
    name_of,
)
from tests.platform.objects import Objects
from tests.platform.quantities import amount

ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"

_reference = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_keyed = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class NotThere(Exception):
    """Something that a pod refers to does not exist, and the pod waits for it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of this machine, at a path of a container."""

    source: Path
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the pods of a rig have in common.

    Attributes
    ----------
    folder
        Volumes and logs are below it.
    api
        Address and port of the API, as pods reach it.
    authority
        The certificate that the API's is checked with.
    image
        Variables that each container has, whatever its image is.
    entry_point
        Command of a container that says none.
    user
        Of a container that must not be root, and does not say which.
    reachable
        Folders of this machine that images are taken to hold.
    """

    objects: Objects
    access: Access
    folder: Path
    api: tuple[str, int]
    authority: Path
    image: dict[str, str]
    entry_point: tuple[str, ...] = ()
    user: int = 10001
    reachable: tuple[Path, ...] = ()
    pulled: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Image → further variables of its containers."""


class PodFiles:
    """The volumes and environments of one pod, in a folder of its own."""

    def __init__(self, around: Surroundings, pod: Object) -> None:
        self._around = around
        self._pod = pod
        metadata = pod["metadata"]
        self._namespace: str = metadata["namespace"]
        self.folder = around.folder / "pods" / f"{metadata['namespace']}_{metadata['uid']}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._volumes: dict[str, Path] = {}
        self._account: Path | None = None

    def make(self) -> None:
        """Make all volumes.

        Raises
        ------
        NotThere
            A ConfigMap, Secret or claim is missing.
        """
        for volume in self._pod["spec"].get("volumes") or ():
            if volume["name"] not in self._volumes:
                self._volumes[volume["name"]] = self._make(volume)
        account = self._around.objects.find(
            SERVICE_ACCOUNT, self._namespace, self._pod["spec"]["serviceAccountName"]
        )
        mounts = self._pod["spec"].get("automountServiceAccountToken")
        if mounts is None:
            mounts = (account or NOTHING).get("automountServiceAccountToken")
        if mounts is not False:
            self._account = self._write("service-account", self._account_files(), 0o644)

    def mounts(self, container: Object) -> list[Mount]:
        """Where a container has them."""
        mounts: list[Mount] = []
        if self._account is not None:
            mounts.append(Mount(self._account, ACCOUNT_FOLDER, read_only=True))
        for mount in container.get("volumeMounts") or ():
            source = self._volumes[mount["name"]]
            if sub := mount.get("subPath"):
                source = source / sub
                if not source.exists():
                    source.mkdir(parents=True)
            mounts.append(Mount(source, mount["mountPath"], bool(mount.get("readOnly"))))
        return mounts

    def environment(self, container: Object) -> dict[str, str]:
        """A container's variables.

        Raises
        ------
        NotThere
            One refers to what does not exist.
        """
        host, port = self._around.api
        found = {
            **self._around.image,
            **self._around.pulled.get(container["image"], {}),
            "HOSTNAME": self._pod["spec"].get("hostname") or name_of(self._pod),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
        }
        for source in container.get("envFrom") or ():
            found |= {source.get("prefix", "") + k: v for k, v in self._all_of(source).items()}
        for variable in container.get("env") or ():
            if (source := variable.get("valueFrom")) is None:
                found[variable["name"]] = expand(variable.get("value") or "", found)
            elif (value := self._value(source, container)) is not None:
                found[variable["name"]] = value
        return found

    def _make(self, volume: Object) -> Path:
        name = volume["name"]
        match volume:
            case {"secret": source}:
                files = self._data(SECRET, source["secretName"], source)
                return self._write(name, files, source.get("defaultMode", 0o644))
            case {"configMap": source}:
                files = self._data(CONFIG_MAP, source["name"], source)
                return self._write(name, files, source.get("defaultMode", 0o644))
            case {"downwardAPI": source}:
                return self._write(name, self._downward(source), 0o644)
            case {"projected": source}:
                files: dict[str, bytes] = {}
                for each in source["sources"]:
                    files |= self._projected(each)
                return self._write(name, files, source.get("defaultMode", 0o644))
            case {"persistentVolumeClaim": source}:
                claim = source["claimName"]
                if self._around.objects.find(CLAIM, self._namespace, claim) is None:
                    raise NotThere(f'persistentvolumeclaim "{claim}" not found')
                folder = self._around.folder / "claims" / f"{self._namespace}_{claim}"
            case _:
                folder = self.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        return folder

    def _write(self, name: str, files: dict[str, bytes], mode: int) -> Path:
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        group = (self._pod["spec"].get("securityContext") or NOTHING).get("fsGroup")
        for path, content in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode if group is None else mode | 0o440)
        return folder

    def _data(self, kind: Any, name: str, source: Object) -> dict[str, bytes]:
        found = self._around.objects.find(kind, self._namespace, name)
        if found is None:
            if source.get("optional"):
                return {}
            raise NotThere(f'{kind.kind.lower()} "{name}" not found')
        files = dict(_content(found))
        if (items := source.get("items")) is None:
            return files
        for item in items:
            if item["key"] not in files:
                raise NotThere(f"{kind.kind} {name} has no key {item['key']}")
        return {item["path"]: files[item["key"]] for item in items}

    def _projected(self, source: Object) -> dict[str, bytes]:
        match source:
            case {"secret": each}:
                return self._data(SECRET, each["name"], each)
            case {"configMap": each}:
                return self._data(CONFIG_MAP, each["name"], each)
            case {"downwardAPI": each}:
                return self._downward(each)
            case {"serviceAccountToken": each}:
                return {each["path"]: self._account_files()["token"]}
            case _:
                raise NotThere(f"the rig has no volume of {sorted(source)}")

    def _downward(self, source: Object) -> dict[str, bytes]:
        return {
            each["path"]: (self._field(each["fieldRef"]["fieldPath"])).encode()
            for each in source.get("items") or ()
        }

    def _account_files(self) -> dict[str, bytes]:
        account = self._pod["spec"]["serviceAccountName"]
        return {
            "token": self._around.access.token_of(self._namespace, account).encode(),
            "namespace": self._namespace.encode(),
            "ca.crt": self._around.authority.read_bytes(),
        }

    def _all_of(self, source: Object) -> dict[str, str]:
        match source:
            case {"configMapRef": each}:
                data = self._data(CONFIG_MAP, each["name"], each)
            case {"secretRef": each}:
                data = self._data(SECRET, each["name"], each)
            case _:
                data = {}
        return {key: value.decode() for key, value in data.items()}

    def _value(self, source: Object, container: Object) -> str | None:
        match source:
            case {"fieldRef": each}:
                return self._field(each["fieldPath"])
            case {"resourceFieldRef": each}:
                return _resource(container, each)
            case {"configMapKeyRef": each}:
                kind = CONFIG_MAP
            case {"secretKeyRef": each}:
                kind = SECRET
            case _:
                raise NotThere(f"the rig has no variable of {sorted(source)}")
        data = self._data(kind, each["name"], {"optional": each.get("optional")})
        if each["key"] in data:
            return data[each["key"]].decode()
        if each.get("optional"):
            return None
        raise NotThere(f"{kind.kind} {each['name']} has no key {each['key']}")

    def _field(self, path: str) -> str:
        if keyed := _keyed.fullmatch(path):
            return (self._pod["metadata"].get(keyed[1]) or NOTHING).get(keyed[2], "")
        value: Any = self._pod
        for step in path.split("."):
            value = (value or NOTHING).get(step)
        if is_object(value):
            pairs: dict[str, str] = value
            return "\n".join(f'{key}="{text}"' for key, text in sorted(pairs.items()))
        return "" if value is None else str(value)


def _content(found: Object) -> Iterator[tuple[str, bytes]]:
    for key, value in (found.get("data") or NOTHING).items():
        yield key, base64.b64decode(value) if found["kind"] == "Secret" else value.encode()
    for key, value in (found.get("binaryData") or NOTHING).items():
        yield key, base64.b64decode(value)


def _resource(container: Object, reference: Object) -> str:
    field_, _, name = reference["resource"].partition(".")
    given = (container["resources"].get(field_) or NOTHING).get(name, "0")
    whole = amount(given) / amount(reference.get("divisor") or "1")
    return str(-(-whole.numerator // whole.denominator))


def expand(text: str, variables: dict[str, str]) -> str:
    """A text in which `$(NAME)` stands for a variable; those that are unknown stay."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return _reference.sub(value, text)
