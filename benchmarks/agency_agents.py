"""How long a message waits for an agent: ``python benchmarks/agency_agents.py [TIMES]``.

From the mail's commit to the first request of cn's own agent at its model (a stub on loopback): spawner, launcher,
Python, bridge and client. Beside it what that agent cannot do without: the import of the Messages API's client. Nothing
passes or fails; the figures are printed, in milliseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from cn.agency.operations import SendMail  # noqa: E402
from tests.support.firm import Firm, firm  # noqa: E402
from tests.support.plays import Play, Scene, call  # noqa: E402


def answers(scene: Scene) -> Play:
    """Deal with the mail, and end."""
    yield call("mail_done", mail=scene.mail)
    yield call("outcome_block", outcome=scene.handler, reason="it waits for mail")


def wait_for(made: Firm, handler: str) -> float:
    """Seconds from a message to the first word of an agent to its model."""
    before = len(made.stage.seen)
    begun = time.perf_counter()
    made.do(SendMail(handler, text="Look at this."))  # type: ignore[arg-type]
    while len(made.stage.seen) == before:
        time.sleep(0.002)
    took = time.perf_counter() - begun
    made.until(lambda: not made.live())
    return took


def import_client() -> float:
    """Seconds that a fresh Python needs for the client."""
    begun = time.perf_counter()
    script = "from cn.llm.client import load_all; load_all()"
    subprocess.run([sys.executable, "-P", "-c", script], check=True, env={"PYTHONPATH": str(ROOT)})
    return time.perf_counter() - begun


def main() -> int:
    """Measure, and print."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory(prefix="cn-bench-") as folder, firm(Path(folder), {"Answer": answers}) as made:
        handler = made.handler("Answer")
        made.until(lambda: made.ends(handler))
        waited = [wait_for(made, handler) for _ in range(times)]
    imported = [import_client() for _ in range(times)]
    for name, found in (("mail to agent", waited), ("import of its client", imported)):
        shown = sorted(1000 * one for one in found)
        print(f"{name}: median {statistics.median(shown):.0f}, least {shown[0]:.0f}, most {shown[-1]:.0f}")
    rest = 1000 * (statistics.median(waited) - statistics.median(imported))
    print(f"without the import: {rest:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
