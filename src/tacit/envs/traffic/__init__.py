"""Highway traffic: recordings in the highD format, replayed around N simulated cars, with two hidden rules.

    recording.py    a recording in memory, checked        highd.py, highd_write.py   highD's CSV files
    files.py        from disk, whatever the form          commonroad.py              CommonRoad scenarios
    layout.py       as arrays, and the problems posed     compact.py                 the form that is shipped
    simulator.py    N egos, one step                      geometry.py                boxes, point mass
    observation.py  the 74 features                       idm.py                     traffic that reacts (an option)
    env.py          the Gymnasium environments            render.py                  pictures
    drivers.py      scripted drivers                      demonstrations.py          problem + actions, replayed
    statistics.py   what the traffic is like              sumo.py                    how the shipped one was made

The recordings that come with the package are simulated (SUMO), not human driving.
"""

from collections.abc import Mapping
from typing import Any

from tacit.envs import EnvInfo
from tacit.errors import UserError

UNKNOWN = "whether the traffic is simulated cannot be told: its recordings cannot be read any more"
SIMULATED = "the traffic is simulated (SUMO), not human driving"

ENVIRONMENTS = tuple(
    EnvInfo(
        id=f"tacit/Highway{name}-v0",
        constraint=text,
        horizon=1000,
        observation="Box(74): goal, ego, neighbours, lanes, route",
        action="Box(2): accelerations in [-1, 1] x 11.5 m/s^2",
        entry_point="tacit.envs.traffic.env:TrafficEnv",
        vector_entry_point="tacit.envs.traffic.env:TrafficVectorEnv",
        kwargs={"constraint": name.lower()},
    )
    for name, text in (
        ("Distance", "keep 20 m from the leader in the lane"),
        ("Velocity", "drive at most 40 m/s"),
    )
)


def notice(env_id: str, env_kwargs: Mapping[str, Any]) -> str | None:
    """What must stand beside every result on this environment, if anything."""
    if all(info.id != env_id.rpartition(":")[2] for info in ENVIRONMENTS):
        return None
    recordings = env_kwargs.get("recordings")
    if recordings is None:
        return SIMULATED
    from tacit.envs.traffic.files import simulated
    from tacit.envs.traffic.layout import flag

    try:
        bad = flag("skip_bad", env_kwargs.get("skip_bad", False))
        return SIMULATED if simulated(recordings, skip_bad=bad) else None
    except UserError:
        return UNKNOWN
