"""Coordinates on two real executors: good, resumable, and refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.coordinates import (
    CoordinateSettings,
    FoundCoordinates,
    IncompatibleJob,
    find_coordinates,
)
from orchestrator.spark.bulk.regions import label_regions
from topology.bulk_embedding import EmbeddingSteps

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NODES, PEERS = 2_000, 8

SETTINGS = CoordinateSettings(
    dimensions=2,
    block_nodes=1_000,
    schedule=EmbeddingSteps(start_iterations=3, iterations=8),
    held_out_share=0.05,
    seed=3,
)


class Interrupted(Exception):
    """Stands for Ctrl-C."""


@pytest.fixture(scope="module")
def samples(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Nodes on a plane of 100 ms × 60 ms; the last three samples are impossible."""
    rng = np.random.default_rng(1)
    points_ms = rng.uniform((0, 0), (100, 60), (NODES, 2))
    nodes = np.repeat(np.arange(NODES), PEERS)
    peers = (nodes + rng.integers(1, NODES, len(nodes))) % NODES
    rtt_ms = np.linalg.norm(points_ms[nodes] - points_ms[peers], axis=1)
    columns = {
        "node": np.append(nodes, [0, 1, 2]),
        "peer": np.append(peers, [1, 2, 2]),
        "rtt_ms": np.append(rtt_ms, [-1.0, float("nan"), 5.0]),
    }
    path = tmp_path_factory.mktemp("samples") / "samples.parquet"
    pq.write_table(pa.Table.from_pydict(columns), path)
    return session.read.parquet(str(path))


@pytest.fixture(scope="module")
def found(
    session: SparkSession, samples: DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> FoundCoordinates:
    """Without interruption."""
    work = tmp_path_factory.mktemp("uninterrupted")
    return find_coordinates(session, samples, work, SETTINGS, nodes=NODES)


def rows(session: SparkSession, found: FoundCoordinates) -> list[tuple[object, ...]]:
    return [tuple(row) for row in found.frame(session).orderBy("node").collect()]


def test_held_out_pairs_are_predicted_and_impossible_samples_counted(
    session: SparkSession, found: FoundCoordinates
) -> None:
    # So few iterations do not find the end of it: with forty it is below 0.02.
    assert found.held_out_median < 0.3
    assert found.held_out_median <= found.held_out_p90
    assert (found.rejected, found.resets) == (3, 0)
    assert found.samples.samples == NODES * PEERS + 3
    assert 0.03 < found.samples.held_out / found.samples.samples < 0.07
    assert found.driver_peak_mb > 100
    assert found.executor_peak_mb > 100
    table = rows(session, found)
    assert [row[0] for row in table] == list(range(NODES))
    assert np.isfinite(np.array(table, float)).all()


def test_interrupted_job_goes_on_to_the_same_coordinates(
    session: SparkSession, samples: DataFrame, found: FoundCoordinates, tmp_path: Path
) -> None:
    def interrupt(phrase: str) -> None:
        if phrase.startswith("iteration 8 "):
            raise Interrupted

    with pytest.raises(Interrupted):
        find_coordinates(session, samples, tmp_path, SETTINGS, nodes=NODES, say=interrupt)
    # Half of an iteration that was under way.
    (tmp_path / "iteration-00009").mkdir()
    (tmp_path / "iteration-00009" / "block-00001.parquet").write_bytes(b"half a file")
    said = list[str]()
    resumed = find_coordinates(session, samples, tmp_path, SETTINGS, nodes=NODES, say=said.append)
    assert resumed.resumed_after == 8
    assert [phrase.split()[1] for phrase in said if phrase.startswith("iteration")] == [
        str(number) for number in range(9, 12)
    ]
    assert rows(session, resumed) == rows(session, found)
    assert resumed.held_out_median == found.held_out_median
    assert (resumed.rejected, resumed.resets) == (found.rejected, found.resets)


def test_finished_job_is_not_done_again(
    session: SparkSession, samples: DataFrame, found: FoundCoordinates
) -> None:
    said = list[str]()
    again = find_coordinates(session, samples, found.folder, SETTINGS, nodes=NODES, say=said.append)
    assert not [phrase for phrase in said if phrase.startswith("iteration")]
    assert again.held_out_median == found.held_out_median


def test_nodes_keep_the_names_that_they_came_with(
    session: SparkSession, samples: DataFrame, tmp_path: Path
) -> None:
    some = samples.where("node < 40 and peer < 400").selectExpr(
        "concat('n', node) as node", "concat('n', peer) as peer", "rtt_ms"
    )
    names = {row[0] for row in some.select("node").union(some.select("peer")).collect()}
    settings = CoordinateSettings(
        dimensions=2, block_nodes=50, schedule=EmbeddingSteps(start_iterations=1, iterations=2)
    )
    placed = find_coordinates(session, some, tmp_path, settings)
    table = rows(session, placed)
    assert placed.samples.nodes == len(names)
    assert {row[0] for row in table} == names
    assert len(table) == len(names)


def test_folder_of_another_job_is_refused(
    session: SparkSession, samples: DataFrame, found: FoundCoordinates
) -> None:
    other = CoordinateSettings(dimensions=3)
    with pytest.raises(IncompatibleJob, match=r"(?s)job.json was begun with.*use another folder"):
        find_coordinates(session, samples, found.folder, other, nodes=NODES)


@pytest.mark.parametrize(
    ("expressions", "message"),
    [
        (("node", "peer"), "rtt_ms: is missing among node, peer"),
        (("node", "peer + 1 as peer", "rtt_ms"), "peer: 2000 is not one of 2000 nodes"),
        (("nullif(node, 7) as node", "peer", "rtt_ms"), "node: is null in 8 of 16003 samples"),
        (("'a' as node", "peer", "rtt_ms"), "node: 'a' is not one of 2000 nodes"),
    ],
)
def test_unusable_samples_are_refused(
    session: SparkSession,
    samples: DataFrame,
    tmp_path: Path,
    expressions: tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(InvalidInput, match=message):
        find_coordinates(session, samples.selectExpr(*expressions), tmp_path, SETTINGS, nodes=NODES)


def test_no_samples_at_all_are_refused(
    session: SparkSession, samples: DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="has no samples"):
        find_coordinates(session, samples.where("false"), tmp_path, SETTINGS)


def test_regions_hold_nodes_that_are_near_their_centre(
    session: SparkSession, found: FoundCoordinates
) -> None:
    frame = found.frame(session)
    centres_ms, labelled = label_regions(frame, 8, seed=1, sample_nodes=500)
    table = np.array(labelled.select("x0", "x1", "region").collect(), float)
    assert len(table) == NODES
    apart = np.linalg.norm(table[:, None, :2] - centres_ms[None], axis=2)
    np.testing.assert_array_equal(apart.argmin(axis=1), table[:, 2].astype(int))
    again, _ = label_regions(frame.repartition(5), 8, seed=1, sample_nodes=500)
    np.testing.assert_array_equal(again, centres_ms)
