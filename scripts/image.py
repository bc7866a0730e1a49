"""Builds the image of `deploy/Dockerfile` for real, twice, without a registry: `make image`.

Both must hold the same files, but for those that numba and Java write as they compile: machine
code and class data, whose bytes differ each time they are made, and Java's store of certificates,
which holds the time. So images have digests of their own.

The Dockerfile's base is Debian's own image, named by its digest. Here `debootstrap` makes one of
the same packages. `buildah` builds in a chroot, so it takes root, but no daemon.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FOLDER = ROOT / "build" / "image"
"""Of what is built, the images included."""

IMAGE, BASE = "localhost/vivace:built", "localhost/vivace-base"

MIRROR = "http://deb.debian.org/debian"

TRUSTED = "/run/trusted.crt"
"""Where a build finds whom this machine trusts, if it says so."""

MADE_ANEW = ("*.nbc", "*.jsa", "*/etc/ssl/certs/java/cacerts")
"""Files whose bytes differ from build to build."""

TOOLS = ("buildah", "crun", "debootstrap")


def missing() -> str:
    """Why no image can be built here; empty: one can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid():
        return "takes root"
    return f"needs {', '.join(lacking)} (Debian has them)" if lacking else ""


def buildah(*arguments: str) -> str:
    """Run buildah; what it printed."""
    places = ("--root", FOLDER / "store", "--runroot", FOLDER / "run", "--storage-driver", "vfs")
    command = ["buildah", *map(str, places), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def has(image: str) -> bool:
    """Whether an image was built."""
    return (FOLDER / "store").exists() and image in buildah(
        "images", "--format", "{{.Name}}:{{.Tag}}"
    )


def make_base(epoch: str) -> None:
    """Make the base, with Debian's packages of today."""
    root = FOLDER / "base"
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", str(root), MIRROR],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    for each in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
        shutil.rmtree(root / each)
        (root / each).mkdir()
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, str(root), "/")
    buildah("commit", "--quiet", "--timestamp", epoch, "--rm", container, BASE)


def build(epoch: str) -> str:
    """Build the image anew; its digest."""
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    arguments = {"BASE": BASE, "SOURCE_DATE_EPOCH": epoch, "REVISION": revision}
    options = ["--isolation", "chroot", "--timestamp", epoch, "--file", "deploy/Dockerfile"]
    if trusted := os.environ.get("SSL_CERT_FILE"):
        options += ["--volume", f"{trusted}:{TRUSTED}:ro"]
        arguments |= {"PIP_CERT": TRUSTED, "SSL_CERT_FILE": TRUSTED}
    options += [f"--build-arg={name}={value}" for name, value in arguments.items()]
    buildah("bud", *options, "--tag", IMAGE, str(ROOT))
    return buildah("images", "--format", "{{.Digest}}", IMAGE)


def held(image: str) -> dict[str, str]:
    """Path → what an image holds there: kind, rights, owner, a link's end or a file's digest."""
    container = buildah("from", image)
    try:
        root = Path(buildah("mount", container))
        return {str(path): _told(root / path) for path in _below(root)}
    finally:
        buildah("rm", container)


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        yield from (Path(folder, name).relative_to(root) for name in (*folders, *files))


def _told(path: Path) -> str:
    found = path.lstat()
    told = f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid}"
    if path.is_symlink():
        return f"{told} {path.readlink()}"
    if not path.is_file() or any(path.match(each) for each in MADE_ANEW):
        return told
    with path.open("rb") as file:
        return f"{told} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def main() -> int:
    """Build twice; whether both are the same."""
    if why := missing():
        sys.stdout.write(f"The image was not built: that {why}.\n")
        return 0
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    if not has(BASE):
        make_base(epoch)
    first, second = ((build(epoch), held(IMAGE)) for _ in range(2))
    differ = sorted(
        path for path in {*first[1], *second[1]} if first[1].get(path) != second[1].get(path)
    )
    sys.stdout.write(f"{IMAGE}: {first[0]}, and then {second[0]}\n")
    sys.stdout.write(f"{len(second[1])} files; {len(differ)} differ\n")
    for path in differ:
        sys.stdout.write(f"{path}: {first[1].get(path)}, and then {second[1].get(path)}\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
