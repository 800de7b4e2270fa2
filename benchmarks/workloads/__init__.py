"""Every workload, in the order of the table. A new one is named here."""

from __future__ import annotations

from benchmarks.frame.workload import Workload
from benchmarks.workloads.arrivals import ARRIVALS
from benchmarks.workloads.decisions import DECISIONS
from benchmarks.workloads.delivery import DELIVERY
from benchmarks.workloads.growth import GROWTH
from benchmarks.workloads.history import HISTORY
from benchmarks.workloads.idle import IDLE
from benchmarks.workloads.look import LOOK
from benchmarks.workloads.network import NETWORK
from benchmarks.workloads.organisation import ORGANISATION
from benchmarks.workloads.records import RECORDS
from benchmarks.workloads.startup import STARTUP
from benchmarks.workloads.web import WEB

ALL: tuple[Workload, ...] = (
    *STARTUP,
    *LOOK,
    *WEB,
    *IDLE,
    *NETWORK,
    *HISTORY,
    *ARRIVALS,
    *DECISIONS,
    *DELIVERY,
    *RECORDS,
    *ORGANISATION,
    *GROWTH,
)
