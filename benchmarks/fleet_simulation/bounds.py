"""What nobody can beat."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.fleet_simulation.world import World


def least(world: World) -> float:
    """Seconds below which no fleet like this stays, whatever it decides, though nothing fails.

    For any set of pools, all their work takes at least as long as on all slots that serve any of
    them, doing nothing else: the largest of such bounds over each pool alone and over the pools
    that have the most to do, two, three, … up to all of them. And no job is quicker than on the
    fastest of its machines. On a GPU there is one job at a time.
    """
    devices = {placed.job.pool: bool(placed.device) for placed in world.jobs}
    work: dict[str, float] = {}
    longest: dict[str, float] = {}
    for placed in world.jobs:
        pool, seconds = placed.job.pool, world.seconds[placed.job.id]
        work[pool] = work.get(pool, 0.0) + seconds
        longest[pool] = max(longest.get(pool, 0.0), seconds)

    def bound(pools: Sequence[str]) -> float:
        speeds = 0.0
        for name, agent in world.agents.items():
            mine = [pool for pool in agent.pools if pool in pools]
            slots = [1 if devices[pool] else agent.terms.jobs for pool in mine]
            speeds += max(slots, default=0) / world.speed[name]
        return sum(work[pool] for pool in pools) / speeds

    alone = {pool: bound([pool]) for pool in work}
    ranked = sorted(alone, key=lambda pool: -alone[pool])
    together = [bound(ranked[:count]) for count in range(1, len(ranked) + 1)]
    fastest = {
        pool: min(world.speed[n] for n, a in world.agents.items() if pool in a.pools)
        for pool in work
    }
    return max(*together, *alone.values(), *(longest[pool] * fastest[pool] for pool in work))
