"""Metrics of one rank of a job as columns of equal length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Tuple

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]


@dataclass(frozen=True)
class MetricTable:
    """One row for each step at which any of the metrics was reported; NaN where one was not."""

    steps: List[int]
    columns: Dict[str, List[float]]

    @classmethod
    def from_points(cls, points: Iterable[Tuple[str, int, float]]) -> "MetricTable":
        """Of (name, step, value); one value for each name and step."""
        kept: Dict[str, Dict[int, float]] = {}
        for name, step, value in points:
            kept.setdefault(name, {})[step] = value
        steps = sorted({step for column in kept.values() for step in column})
        return cls(steps, {name: [column.get(step, math.nan) for step in steps] for name, column in sorted(kept.items())})

    def __len__(self) -> int:
        return len(self.steps)

    def to_pandas(self) -> "pandas.DataFrame":
        """A DataFrame with the steps as its index. Needs pandas."""
        import pandas
        frame: Any = pandas.DataFrame(self.columns, index=pandas.Index(self.steps, name="step"))
        return frame
