"""cn: agents and people work together over plain git.

The agent is the brain, cn is the body: peers push branches, cn turns them into
markdown threads, the agent writes a typed decision, cn enforces the protocol,
performs every effect and logs it.
"""

__version__ = "0.1.0"
