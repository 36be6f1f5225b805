"""All workloads, by the names that `coterie simulate-stack --workload` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lab.stack.workloads.changes import (
    Changes,
    ChangesAndCrashes,
    ChangesAndDisks,
    ChangesAndPauses,
    ChangesAndResets,
)
from coterie.lab.stack.workloads.classic import (
    ClassicLocks,
    CrashingClassics,
    LateClassics,
    LongClassics,
    RejoiningClassics,
    ReturningClassics,
)
from coterie.lab.stack.workloads.election import ApartLeaders, Leaders
from coterie.lab.stack.workloads.locks import (
    Circles,
    Elections,
    ExclusiveLocks,
    FirstComeFirstServed,
    LeasedLocks,
    OncePerLease,
    Semaphores,
    SeveralLocks,
    SharedLocks,
)
from coterie.lab.stack.workloads.mix_ups import (
    Installations,
    MisplacedDisks,
    MixedDisks,
    Renumbering,
    SetBackDisks,
)
from coterie.lab.stack.workloads.operators import (
    Breaks,
    EditedFiles,
    Forces,
    HugeTimes,
    SmallChanges,
    TwoForces,
)
from coterie.lab.stack.workloads.outages import (
    Diskless,
    NewDisks,
    Pauses,
    Resets,
    Restarts,
    Shutdowns,
)
from coterie.lab.stack.workloads.store import Bank, DisksOfSites, FarBank, LivesOfSites
from coterie.lab.stack.workloads.store_mixture import Mixture
from coterie.lab.stack.workloads.values import ChangedValues, ForcedValues, Values
from coterie.lab.stack.workloads.witnesses import Witnesses

if TYPE_CHECKING:
    from coterie.lab.stack.workloads.workload import Workload

WORKLOADS: dict[str, type[Workload]] = {
    "locks": LeasedLocks,
    "exclusive": ExclusiveLocks,
    "shared": SharedLocks,
    "semaphore": Semaphores,
    "election": Elections,
    "lock-all": SeveralLocks,
    "restarts": Restarts,
    "shutdowns": Shutdowns,
    "new-disks": NewDisks,
    "diskless": Diskless,
    "pauses": Pauses,
    "resets": Resets,
    "line": FirstComeFirstServed,
    "shared-line": FirstComeFirstServed,  # with some that share
    "once-per-lease": OncePerLease,
    "impatience": OncePerLease,  # who ask again at once
    "witnesses": Witnesses,
    "circles": Circles,
    "far-circles": Circles,  # with nodes far away
    "classic": ClassicLocks,
    "classic-crashes": CrashingClassics,
    "classic-returns": ReturningClassics,
    "classic-rejoins": RejoiningClassics,
    "classic-long": LongClassics,
    "classic-late": LateClassics,
    "store": Bank,
    "store-lives": LivesOfSites,
    "store-disks": DisksOfSites,
    "store-mixture": Mixture,
    "far-store": FarBank,
    "leaders": Leaders,
    "leaders-apart": ApartLeaders,
    "changes": Changes,
    "change-crashes": ChangesAndCrashes,
    "change-pauses": ChangesAndPauses,
    "change-resets": ChangesAndResets,
    "change-disks": ChangesAndDisks,
    "values": Values,
    "changed-values": ChangedValues,
    "forced-values": ForcedValues,
    "installations": Installations,
    "mixed-disks": MixedDisks,
    "set-back-disks": SetBackDisks,
    "misplaced-disks": MisplacedDisks,
    "renumbering": Renumbering,
    "small-changes": SmallChanges,
    "huge-times": HugeTimes,
    "forces": Forces,
    "two-forces": TwoForces,
    "breaks": Breaks,
    "edited-files": EditedFiles,
}
