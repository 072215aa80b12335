"""Highway traffic: recordings in the highD format, replayed around N simulated cars, with two hidden rules.

    recording.py    a recording in memory, checked        highd.py, highd_write.py   highD's CSV files
    files.py        from disk, whatever the form          commonroad.py              CommonRoad scenarios
    layout.py       as arrays, and the problems posed     compact.py                 the form that is shipped
    simulator.py    N egos, one step                      geometry.py                boxes, point mass
    observation.py  the 74 features                       idm.py                     traffic that reacts (an option)
    env.py          the Gymnasium environments            render.py                  pictures
    drivers.py      scripted drivers                      demonstrations.py          problem + actions, replayed
    statistics.py   what the traffic is like

The recordings that come with the package are simulated (SUMO, `tools/make_recordings.py`), not human driving.
"""

from tacit.envs.families import DemonstrationFormat, EnvInfo, Family

SIMULATED = "the traffic is simulated (SUMO), not human driving"
UNKNOWN = "it is unknown whether the traffic is simulated: its recordings cannot be read any more"

FAMILY = Family(
    tuple(
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
    ),
    options="tacit.envs.traffic.files:checked_options",
    notice="tacit.envs.traffic.files:notice",
    demonstrations="tacit.envs.traffic.demonstrations:shipped",
    formats=(
        DemonstrationFormat(
            ".replay.safetensors",
            load="tacit.envs.traffic.demonstrations:load_replay",
            save="tacit.envs.traffic.demonstrations:save_replay",
        ),
    ),
)
