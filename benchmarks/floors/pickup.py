"""Floor of a sync by pickup: a fetch from each peer, all at once, then what the floor of arrivals does."""

from arrivals import record
from bare import git, peers, together

together(
    [
        ["fetch", "--quiet", f"../peers/{peer}", f"+refs/heads/sigma/*:refs/floor/{peer.removesuffix('.git')}/*"]
        for peer in peers()
    ]
)
git("fetch", "--quiet", "origin")
record()
