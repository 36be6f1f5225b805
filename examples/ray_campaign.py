"""Ray: a campaign of the simulator on a Ray cluster that is there already.

Any `concurrent.futures.Executor` runs a campaign; this is the one that Ray does not bring along. The workers need the
same version of coterie as this program.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

import ray

from coterie.lab.simulate import TrialBuilder, campaign

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RayExecutor(Executor):
    """Runs each call as a task of Ray."""

    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        """Let Ray run a call somewhere."""
        task: Any = ray.remote(fn)
        future: Future[Result] = task.remote(*args, **kwargs).future()
        return future


if __name__ == "__main__":
    ray.init()  # address="auto" for a cluster
    trials = TrialBuilder(algorithm="maekawa", size=7)
    workers = int(ray.cluster_resources()["CPU"])
    print(campaign(trials, range(1000), executor=RayExecutor(), workers=workers))
