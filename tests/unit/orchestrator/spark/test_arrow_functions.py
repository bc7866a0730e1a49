"""PySpark's check for pandas is skipped only while a function is created."""

from __future__ import annotations

from typing import cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.pandas import functions as pandas_functions

from orchestrator.spark.arrow_functions import map_in_arrow


class Frame:
    """Stands for a data frame, which checks for pandas as Spark's do."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.asked: object = None
        self.problem = problem

    def mapInArrow(self, function: object, schema: str) -> Frame:
        self.asked = vars(pandas_functions)["require_minimum_pandas_version"]()
        if self.problem is not None:
            raise self.problem
        return self


@pytest.mark.parametrize("problem", [None, ValueError("no schema")])
def test_check_is_back_afterwards_also_after_an_error(problem: Exception | None) -> None:
    check = vars(pandas_functions)["require_minimum_pandas_version"]
    frame = Frame(problem)
    if problem is None:
        assert map_in_arrow(cast("DataFrame", frame), iter, "x long") is frame
    else:
        with pytest.raises(ValueError, match="no schema"):
            map_in_arrow(cast("DataFrame", frame), iter, "x long")
    assert vars(pandas_functions)["require_minimum_pandas_version"] is check
