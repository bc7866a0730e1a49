"""The configuration of one process of a cluster: a file, and variables that win over it.

The entry points `orchestrator.deploy.coordinator`, `.site`, `.host_pool` and `orchestrator.web`
read the same format, so one file can serve all processes of a deployment. The file is YAML (or
JSON, which is YAML):

    manifest: cluster.yaml          # the Cluster manifest; relative to this file
    zookeeper: zk-0:2181,zk-1:2181
    secretFile: /run/secrets/vivace

Every field but `sparkSettings` can be set by a variable instead: `zookeeper` by
`VIVACE_ZOOKEEPER`, `secretFile` by `VIVACE_SECRET_FILE`. The secret itself is read from a file or
from `VIVACE_SECRET`; neither the configuration file nor the command line may hold it, because both
are shown to people who must not know it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from foundation.bounds import MAX_NAME
from foundation.suggestions import nearest
from orchestrator.documents.document import Field, documents, slug
from orchestrator.documents.units import UnitError, servers
from orchestrator.embedded.ports import LOOPBACK
from orchestrator.errors import InvalidInput
from orchestrator.folders import read_secret
from orchestrator.host.shell.own_environment import own_machine
from orchestrator.manifest import ClusterManifest, PlaceManifest, cluster_record, load
from orchestrator.manifest.applications import SparkApplication, applications_of
from orchestrator.records import FailureLabels, HostSpec, NodeKind
from orchestrator.store.zookeeper import ZooKeeperStore

_texts = (
    "cluster", "zookeeper", "site", "region", "domain", "application", "bind", "advertise",
    "sparkMaster", "web", "insecureHttp", "corsAllow", "startedBy", "grace",
)  # fmt: skip
_paths = (
    "manifest", "secretFile", "archive", "work", "tokenFile", "certificate", "certificateKey",
    "logs",
)  # fmt: skip

_address = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
"""A host name or an IP address, as sockets take it."""

SECRET_VARIABLE = "VIVACE_SECRET"

KUBERNETES = "k8s://"
"""Beginning of the URL of Spark's master where executors are pods."""

SECRET_OF_EXECUTORS = "spark.executorEnv.VIVACE_SECRET_FILE"
"""The Spark setting with which a host pool does not send the secret to its executors."""

WEB = f"{LOOPBACK}:8650"
"""Where the HTTP API is served unless something else is said."""

GRACE_S = 300
"""What a process that is told to end may take, unless something else is said: enough to move
states of hundreds of megabytes."""

VARIABLES: Mapping[str, str] = {
    name: "VIVACE_" + re.sub("([A-Z])", r"_\1", name).upper() for name in (*_texts, *_paths)
}
"""Field → the environment variable that wins over it."""


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Start parameters of a process of a cluster.

    Attributes
    ----------
    file
        Where the configuration was read.
    cluster
        The cluster's name; by default the one in the manifest.
    zookeeper
        `host:port` of the servers, separated by commas.
    secret
        Digest credential for the store; never logged.
    secret_file
        Where it was read, if not in a variable.
    manifest
        The Cluster manifest. A site whose `region` is set needs none.
    site, region
        The site to be, and its region; by default the region that the manifest gives the site.
    domain
        The label `domain` of this process's hosts, instead of those in the manifest.
    application
        Which of the manifest's Spark applications a host pool is; empty: the only one.
    bind
        Address on which hosts listen; `0.0.0.0` where hosts are on several machines.
    advertise
        Address that other hosts are told, if it is another (`orchestrator.host.shell.addresses`).
    archive
        Folder in which a site keeps its outputs; a site without one only measures them.
    work
        Folder for Spark's logs and scratch files.
    spark_master, spark_settings
        Spark's master URL, by default a cluster on this machine; further Spark settings.
    web
        Where the HTTP API is served: a port, or `address:port`.
    token_file
        Holds a token that may do everything there; further ones are made with it.
    certificate, certificate_key
        Files of the API's TLS certificate and its key, PEM.
    insecure_http
        Whether the API may be served to other machines without a certificate.
    cors_allow
        Whose pages browsers let read the API's responses.
    started_by
        Process that runs the whole cluster on this machine; 0: there is none.
    logs
        Folder with the logs of this machine's processes, which the API may show.
    grace
        How long a site or a host pool may take to end when it is told to by SIGTERM, seconds: it
        waits for its turn, and leaves. 0: it ends at once.
    """

    file: str
    cluster: str
    zookeeper: str
    secret: str
    secret_file: Path | None = None
    manifest: ClusterManifest | None = None
    site: str = ""
    region: str = ""
    domain: str = ""
    application: str = ""
    bind: str = LOOPBACK
    advertise: str = ""
    archive: Path | None = None
    work: Path | None = None
    spark_master: str | None = None
    spark_settings: dict[str, str] = {}
    web: str = WEB
    token_file: Path | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None
    insecure_http: bool = False
    started_by: int = 0
    cors_allow: tuple[str, ...] = ()
    logs: Path | None = None
    grace: int = GRACE_S

    def open_store(self) -> ZooKeeperStore:
        """Open a session with the cluster's store.

        Raises
        ------
        Unreachable
            ZooKeeper does not answer.
        """
        return ZooKeeperStore(self.zookeeper, self.cluster, self.secret)

    def cluster_manifest(self) -> ClusterManifest:
        """The Cluster manifest, for processes that need one."""
        if self.manifest is None:
            raise _missing(self.file, "manifest")
        return self.manifest

    def work_folder(self) -> Path:
        """The folder for Spark's files, for processes that start Spark."""
        if self.work is None:
            raise _missing(self.file, "work")
        return self.work

    def host_spec(
        self, place: PlaceManifest, kind: NodeKind, application: SparkApplication | None = None
    ) -> HostSpec:
        """Start parameters of the host of a node or site.

        Parameters
        ----------
        application
            That runs the node.
        """
        labels = FailureLabels(domain=self.domain or place.domain)
        if application is not None:
            # This process is the application's driver.
            labels = msgspec.structs.replace(
                labels,
                application=application.name,
                zone=application.zone,
                driver=own_machine(),
            )
        return HostSpec(
            cluster=self.cluster,
            node=place.name,
            kind=kind,
            region=place.region,
            labels=labels,
            zookeeper=self.zookeeper,
            secret="" if kind is NodeKind.EXECUTOR and self.executors_read_secret else self.secret,
            bind=self.bind,
            advertise=self.advertise,
            archive=str(self.archive) if kind is NodeKind.SITE and self.archive else None,
        )

    @property
    def executors_read_secret(self) -> bool:
        """Whether the environment of executors says where the secret lies."""
        return self.on_kubernetes or SECRET_OF_EXECUTORS in self.spark_settings

    @property
    def on_kubernetes(self) -> bool:
        """Whether executors are pods that Spark makes."""
        return (self.spark_master or "").startswith(KUBERNETES)

    def own_application(self) -> SparkApplication:
        """The Spark application that a host pool is.

        Raises
        ------
        InvalidInput
            The manifest has no such application, or several and none is chosen.
        """
        manifest = self.cluster_manifest()
        found = {a.name: a for a in applications_of(manifest, cluster_record(manifest).delays_ms)}
        if self.application in found:
            return found[self.application]
        if self.application:
            problem = f"is no application of {manifest.file}"
            remedy = nearest(self.application, found)
            raise InvalidInput(self.file, "application", self.application, problem, remedy)
        if len(found) > 1:
            raise _missing(self.file, "application")
        (only,) = found.values()
        return only

    def site_spec(self) -> HostSpec:
        """Start parameters of the host of this site.

        Raises
        ------
        InvalidInput
            No site is named, or the manifest has no such site and no region is set.
        """
        if not self.site:
            raise _missing(self.file, "site")
        sites = {site.name: site for site in (self.manifest.sites if self.manifest else ())}
        place = sites.get(self.site)
        if self.region:
            domain = place.domain if place else ""
            place = PlaceManifest(name=self.site, region=self.region, file=self.file, domain=domain)
        elif self.manifest is None:
            raise _missing(self.file, "region")
        elif place is None:
            problem = f"is no site of {self.manifest.file}"
            raise InvalidInput(self.file, "site", self.site, problem, nearest(self.site, sites))
        return self.host_spec(place, NodeKind.SITE)


def read_config(file: Path, environment: Mapping[str, str] = os.environ) -> ProcessConfig:
    """Read a configuration file; environment variables win over its fields.

    Raises
    ------
    InvalidInput
        The file, or one that it names, cannot be used; a field is unknown or missing.
    """
    found = documents(file)
    if len(found) != 1:
        problem = f"holds {len(found)} documents"
        raise InvalidInput(str(file), "", None, problem, "Write a single one.")
    given: dict[str, str] = {}
    with found[0].section() as section:
        for name, variable in VARIABLES.items():
            field = section.get(name)
            if value := environment.get(variable) or _written(field):
                given[name] = value
        settings = section.get("sparkSettings")
        spark_settings = {
            key.name.removeprefix("sparkSettings."): value.text()
            for key, value in (settings.entries() if settings else ())
        }
    insecure = given.pop("insecureHttp", "false")
    if insecure not in ("true", "false"):
        raise InvalidInput(
            str(file), "insecureHttp", insecure, "is no truth", "Write true or false."
        )
    allowed = [each.strip() for each in given.pop("corsAllow", "").split(",") if each.strip()]
    whole = {"startedBy": "0", "grace": str(GRACE_S)}
    numbers = {name: given.pop(name, default) for name, default in whole.items()}
    for name, number in numbers.items():
        if not (number.isascii() and number.isdecimal()):
            remedy = "Write a whole number from 0 on."
            raise InvalidInput(str(file), name, number, "is no number", remedy)
    paths = {
        # A path in the file is relative to the file, a path in a variable to the working folder.
        name: (Path() if environment.get(VARIABLES[name]) else file.parent).absolute() / given[name]
        for name in _paths
        if name in given
    }
    manifest = None
    if "manifest" in paths:
        manifest = load([paths["manifest"]]).cluster
        if manifest is None:
            problem = "holds no manifest of kind Cluster"
            raise InvalidInput(str(paths["manifest"]), "", None, problem, "Name another file.")
        given.setdefault("cluster", manifest.name)
    secret = environment.get(SECRET_VARIABLE) or _secret(file, paths.get("secretFile"))
    for name in ("cluster", "zookeeper"):
        if name not in given:
            raise _missing(file, name)
    _check_names(file, given)
    read = {
        "file": str(file),
        "secret": secret,
        **{name: int(number) for name, number in numbers.items()},
        "sparkSettings": spark_settings,
        "insecureHttp": insecure == "true",
        "corsAllow": allowed,
    }
    return msgspec.convert({**given, **paths, **read, "manifest": manifest}, ProcessConfig)


def is_address(text: str) -> bool:
    """Whether a text is a host name, or an IP address as sockets take it."""
    return _address.fullmatch(text) is not None


def _written(field: Field | None) -> str:
    """A field's text; a number or a truth, as of a port, as it stands in the file."""
    if field is None:
        return ""
    return (
        field.text()
        if field.name not in ("web", "insecureHttp", "grace")
        else str(field.node.value)
    )


def _check_names(file: Path, given: Mapping[str, str]) -> None:
    for name in ("cluster", "site"):
        value = given.get(name, "")
        if slug(value) != value or len(value) > MAX_NAME:
            remedy = f"Use small letters, digits and single hyphens, {MAX_NAME} at most."
            raise InvalidInput(str(file), name, value, "cannot be a name", remedy)
    for name in ("bind", "advertise"):
        if (value := given.get(name)) is not None and not is_address(value):
            remedy = "Write a host name or an IP address, without port or network."
            raise InvalidInput(str(file), name, value, "is no address", remedy)
    try:
        servers(given["zookeeper"])
    except UnitError as error:
        zookeeper = given["zookeeper"]
        raise InvalidInput(str(file), "zookeeper", zookeeper, error.problem, error.remedy) from None


def _secret(file: Path, secret_file: Path | None) -> str:
    if secret_file is None:
        raise _missing(file, "secretFile")
    return read_secret(str(file), "secretFile", secret_file)


def _missing(file: Path | str, name: str) -> InvalidInput:
    variables = VARIABLES[name]
    if name == "secretFile":
        variables += f" or {SECRET_VARIABLE}"
    return InvalidInput(str(file), name, None, "is missing", f"Add it, or set {variables}.")
