"""What each machine of a Spark standalone cluster needs, as files.

A machine gets a folder, which is copied there as it is: a script that runs each of its processes
(`start`), the configuration of Vivace, of Spark and of ZooKeeper, units for systemd, and secrets.
Nothing but the files below `secrets` has a secret in it, and nobody but their owner may read them.

Whoever reaches Spark's master with its secret can have it run programs on all machines. So masters,
workers, drivers and executors prove to each other that they know one, and encrypt what they
exchange. The pages of masters and workers can be read on their own machine only: Spark serves them
at `SPARK_LOCAL_IP`. All else of a worker and its executors listens at the machine's address.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from orchestrator.deploy.config import GRACE_S, SECRET_OF_EXECUTORS
from orchestrator.deploy.rendering.folder import (
    PROGRAM,
    Text,
    manifest_texts,
)
from orchestrator.deploy.rendering.machines import Address, MachineLayout
from orchestrator.deploy.rendering.start_script import start_script
from orchestrator.embedded.ports import LOOPBACK
from orchestrator.embedded.zookeeper import ENSEMBLE, credential_options
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest
from orchestrator.spark.authentication import AUTHENTICATED, GUARDED_PAGES, SECRET_FILE_SETTING

ZOOKEEPER_PORT, FOLLOW_PORT, VOTE_PORT = 2181, 2888, 3888
MASTER_PORT, MASTER_PAGE, WORKER_PAGE = 7077, 8080, 8081

CLUSTER_SECRET, SPARK_SECRET, TOKEN, QUORUM = "cluster", "spark", "token", "quorum.jaas"
"""Files below `secrets`."""

_zookeeper = """\
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
dataDir={data}/zookeeper
clientPort={port}
clientPortAddress={address}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

_unit = """\
[Unit]
Description=Vivace, cluster {cluster}: {process}
Wants=network-online.target
After=network-online.target
PartOf=vivace.target

[Service]
User={user}
ExecStart={folder}/start {process}
Restart=always
RestartSec=1
KillMode=mixed
TimeoutStopSec={patience_s}
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=read-only
ProtectSystem=strict
ReadWritePaths={data}

[Install]
WantedBy=vivace.target
"""

_target = """\
[Unit]
Description=Vivace, cluster {cluster}: all that runs on {machine}
Wants={units}

[Install]
WantedBy=multi-user.target
"""

_path, _user = re.compile(r"(/[\w.+-]+)+"), re.compile(r"[a-z_][\w-]*")

STOP_S, MARGIN_S = 90, 10
"""What a process takes to end, and how much longer than its grace it is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePaths:
    """Where things are on each machine.

    Attributes
    ----------
    python
        The interpreter that Vivace is installed for.
    folder
        Where the machine's rendered folder is copied to.
    data
        For all that processes write.
    user
        Who runs them.
    """

    python: str = "/opt/vivace/bin/python"
    folder: str = "/etc/vivace"
    data: str = "/var/lib/vivace"
    user: str = "vivace"

    def check(self) -> None:
        """Refuse what scripts and units could not name.

        Raises
        ------
        InvalidInput
            One is no absolute path, or no user.
        """
        for name in ("python", "folder", "data"):
            if not _path.fullmatch(path := getattr(self, name)):
                problem = "is no path that scripts and units can name"
                remedy = "Write an absolute one of letters, digits, dots, hyphens and slashes."
                raise InvalidInput("command line", f"--{name}", path, problem, remedy)
        if not _user.fullmatch(self.user):
            problem, remedy = "cannot be a user", "Write a user's name."
            raise InvalidInput("command line", "--user", self.user, problem, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProcess:
    """A process of a machine.

    Attributes
    ----------
    command
        As the script has it.
    variables
        Of its environment, as the script has their values.
    turns
        Whether it waits for its turn when it is told to end.
    """

    name: str
    command: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    turns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """A cluster that is to be rendered."""

    manifest: ClusterManifest
    layout: MachineLayout
    paths: MachinePaths

    @property
    def zookeeper(self) -> str:
        """Addresses of the servers, as clients take them."""
        own = ",".join(f"{each.host}:{ZOOKEEPER_PORT}" for each in self.layout.servers)
        return own or self.manifest.zookeeper.address

    @property
    def master(self) -> str:
        """URL of Spark's masters."""
        masters = (f"{each.host}:{MASTER_PORT}" for each in self.layout.masters)
        return f"spark://{','.join(masters)}"

    def secret(self, name: str) -> str:
        """Where a machine has a secret."""
        return f"{self.paths.folder}/secrets/{name}"

    def processes(self, machine: Address) -> Iterator[MachineProcess]:
        """What a machine runs."""
        layout = self.layout
        own_pages = {"SPARK_LOCAL_IP": LOOPBACK}
        if machine in layout.servers:
            yield MachineProcess(name="zookeeper", command=self._server())
        if machine in layout.masters:
            options = f"--host {machine.host} --port {MASTER_PORT} --webui-port {MASTER_PAGE}"
            yield MachineProcess(
                name="master",
                command=f'"$SPARK_HOME/bin/spark-class" {_spark("master.Master")} {options}',
                variables=own_pages,
            )
        memory = layout.cores * self.manifest.executor_memory_bytes // 2**20
        room = f"--cores {layout.cores} --memory {memory}m"
        pages = f"--host {machine.host} --webui-port {WORKER_PAGE}"
        yield MachineProcess(
            name="worker",
            command=f'"$SPARK_HOME/bin/spark-class" {_spark("worker.Worker")} {pages} {room} '
            f'--work-dir "$data/worker" {self.master}',
            variables=own_pages,
        )
        for name in _on(layout.coordinators, machine):
            yield MachineProcess(name=name, command=_python("deploy.coordinator"))
        for name in _on(layout.applications, machine):
            own = {"VIVACE_APPLICATION": name.partition("-")[2], "VIVACE_WORK": f'"$data/{name}"'}
            command = _python("deploy.host_pool")
            yield MachineProcess(name=name, command=command, variables=own, turns=True)
        for name in _on(layout.sites, machine):
            own = {"VIVACE_SITE": name.partition("-")[2], "VIVACE_ARCHIVE": f'"$data/{name}"'}
            yield MachineProcess(
                name=name, command=_python("deploy.site"), variables=own, turns=True
            )
        for name in _on(layout.web, machine):
            own = {"VIVACE_TOKEN_FILE": shlex.quote(self.secret(TOKEN))}
            yield MachineProcess(name=name, command=_python("web"), variables=own)

    def _server(self) -> str:
        options = credential_options(self.secret(QUORUM)) if len(self.layout.servers) > 1 else []
        shown = " ".join(map(shlex.quote, options))
        return (
            f"java -Xmx256m -XX:+UseSerialGC -XX:-UsePerfData -Dzookeeper.jmx.log4j.disable=true "
            f'{shown} -cp "$SPARK_HOME/jars/*" '
            'org.apache.zookeeper.server.quorum.QuorumPeerMain "$here/zoo.cfg"'
        )

    def texts(self, machine: Address) -> Iterator[tuple[str, Text]]:
        """The files of a machine, without secrets."""
        processes = [*self.processes(machine)]
        yield "start", Text(self._start(machine, processes), PROGRAM)
        yield "vivace.yaml", Text(self._config())
        yield "spark/spark-defaults.conf", Text(self._spark_defaults())
        yield "spark/spark-env.sh", Text(self._spark_environment(machine))
        if machine in self.layout.servers:
            yield "zoo.cfg", Text(self._zookeeper(machine))
        yield from manifest_texts(self.manifest).items()
        yield from self._units(machine, processes)

    def secrets_of(self, machine: Address) -> Iterator[str]:
        """The secrets that a machine needs."""
        yield from (CLUSTER_SECRET, SPARK_SECRET)
        if machine in self.layout.web.values():
            yield TOKEN
        if machine in self.layout.servers and len(self.layout.servers) > 1:
            yield QUORUM

    def _start(self, machine: Address, processes: Sequence[MachineProcess]) -> str:
        number = {each: at for at, each in enumerate(self.layout.servers, 1)}.get(machine)
        return start_script(
            f"machine {machine.name} of cluster {self.manifest.name}",
            {"here": self.paths.folder, "data": self.paths.data, "python": self.paths.python},
            {
                "VIVACE_MACHINE": machine.name,
                "VIVACE_ADVERTISE": machine.host,
                "SPARK_CONF_DIR": f"{self.paths.folder}/spark",
            },
            {each.name: (each.variables, each.command) for each in processes},
            {} if number is None else {"zookeeper": f'echo {number} >"$data/zookeeper/myid"'},
        )

    @property
    def _grace_s(self) -> int:
        """What a process needs that all others go before."""
        return GRACE_S * (len(self.layout.applications) + len(self.layout.sites))

    def _config(self) -> str:
        settings = {
            SECRET_FILE_SETTING: self.secret(SPARK_SECRET),
            SECRET_OF_EXECUTORS: self.secret(CLUSTER_SECRET),
        }
        any_address = "[::]" if self.layout.machines[0].host.startswith("[") else "0.0.0.0"
        fields = {
            "manifest": "cluster.yaml",
            "zookeeper": self.zookeeper,
            "secretFile": f"secrets/{CLUSTER_SECRET}",
            "bind": any_address,
            "sparkMaster": self.master,
            "sparkSettings": settings,
            "grace": self._grace_s,
        }
        return yaml.safe_dump(fields, sort_keys=False, width=1000)

    def _spark_defaults(self) -> str:
        settings = {
            **AUTHENTICATED,
            **GUARDED_PAGES,
            "spark.deploy.recoveryMode": "ZOOKEEPER",
            "spark.deploy.zookeeper.url": self.zookeeper,
            "spark.deploy.zookeeper.dir": f"/spark-{self.manifest.name}",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.master.rest.enabled": "false",
            "spark.worker.cleanup.enabled": "true",
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())

    def _spark_environment(self, machine: Address) -> str:
        """Variables for Spark's own scripts. Outside Kubernetes, Spark reads no file with a secret,
        but takes it from a variable."""
        return (
            f"_SPARK_AUTH_SECRET=$(base64 <{self.secret(SPARK_SECRET)} | tr -d '\\n')\n"
            f"SPARK_LOCAL_IP=${{SPARK_LOCAL_IP:-{machine.host}}}\n"
            f"SPARK_LOCAL_DIRS={shlex.quote(self.paths.data + '/scratch')}\n"
            "SPARK_DAEMON_MEMORY=512m\n"
        )

    def _zookeeper(self, machine: Address) -> str:
        text = _zookeeper.format(data=self.paths.data, port=ZOOKEEPER_PORT, address=machine.host)
        if len(self.layout.servers) == 1:
            return text
        servers = (
            f"server.{number}={each.host}:{FOLLOW_PORT}:{VOTE_PORT}\n"
            for number, each in enumerate(self.layout.servers, 1)
        )
        return text + ENSEMBLE + "".join(servers)

    def _units(
        self, machine: Address, processes: Sequence[MachineProcess]
    ) -> Iterator[tuple[str, Text]]:
        for each in processes:
            text = _unit.format(
                cluster=self.manifest.name,
                process=each.name,
                user=self.paths.user,
                folder=self.paths.folder,
                data=self.paths.data,
                patience_s=self._grace_s + MARGIN_S if each.turns else STOP_S,
            )
            yield f"systemd/vivace-{each.name}.service", Text(text)
        units = " ".join(f"vivace-{each.name}.service" for each in processes)
        target = _target.format(cluster=self.manifest.name, machine=machine.name, units=units)
        yield "systemd/vivace.target", Text(target)


def _on(named: Mapping[str, Address], machine: Address) -> list[str]:
    return [name for name, where in named.items() if where == machine]


def _spark(name: str) -> str:
    return f"org.apache.spark.deploy.{name}"


def _python(module: str) -> str:
    return f'"$python" -m orchestrator.{module} --config "$here/vivace.yaml"'
