"""Growth of a leaderboard's time with its rows: `python benchmarks/report.py`.

All pairs are compared, so the time may grow at most like the number of pairs.
"""

from __future__ import annotations

import time

import numpy as np

from levelfield.evaluation.statistics.comparisons import joint
from levelfield.evaluation.statistics.crossed import ScoreMoments
from levelfield.evaluation.statistics.intervals import figure_intervals

FEW, MANY, SEEDS, CLASSES = 60, 300, 5, 774
MOST = 1.5


def seconds(rows: int) -> float:
    """Time from class means to all verdicts."""
    random = np.random.default_rng(0)
    values = (
        0.5 + 0.1 * random.standard_normal((rows, 1, CLASSES)) + 0.02 * random.standard_normal((rows, SEEDS, CLASSES))
    )
    began = time.process_time()
    table = ScoreMoments.of({str(row): means for row, means in enumerate(values)}, np.full(CLASSES, 6))
    figure_intervals(table)
    joint([table.differences()])
    return time.process_time() - began


def main() -> None:
    seconds(FEW)  # exclude imports of the first call
    few, many = seconds(FEW), seconds(MANY)
    grown = many / few / (MANY * (MANY - 1) / (FEW * (FEW - 1)))
    verdict = "good" if grown <= MOST else "TOO SLOW"
    print(f"{MANY} rows against {FEW}: {grown:.2f} times as long for each pair; at most {MOST:g}: {verdict}")


if __name__ == "__main__":
    main()
