"""The tasks of Spark jobs, as Spark counts them. Executors import this, so it needs no other package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

IDLE_SECONDS = 20.0
"""The wait after which progress says that no executor has taken a task."""
NO_EXECUTOR = "no executor has taken a task yet: does the cluster have a free one?"


@dataclass
class Tasks:
    """Tasks of a job group, over all its Spark jobs."""

    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


def tasks_of(context: SparkContext, group: str) -> Tasks:
    """The tasks of all jobs of a group, as Spark counts them now."""
    tracker = context.statusTracker()
    tasks = Tasks()
    for job in tracker.getJobIdsForGroup(group):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known is not None else ():
            info = tracker.getStageInfo(stage)
            if info is not None:
                tasks.total += info.numTasks
                tasks.done += info.numCompletedTasks
                tasks.running += info.numActiveTasks
                tasks.failed += info.numFailedTasks
    return tasks
