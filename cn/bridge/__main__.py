"""``python -m cn.bridge``: the bridge of an agent alone, where nothing else of cn is wanted."""

from __future__ import annotations

import sys

from cn.bridge.run import run
from cn.inherited import refuse_signals

refuse_signals()
run(sys.argv[1:])
