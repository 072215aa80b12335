"""The robot tasks: definitions against hand-written ones and stock models, the single environment, pictures."""

import math
import subprocess
import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest

import tacit.envs  # noqa: F401 (registers the environments)
from robot_helpers import wave
from tacit.envs.mujoco_vector import RobotVectorEnv
from tacit.envs.robots import TASKS, RobotEnv, find_task, load_model
from tacit.errors import UserError

ALL = list(TASKS)
SPEED_LIMITED = ("HalfCheetahVelocity", "HopperVelocity", "SwimmerVelocity")


# ---------------------------------------------------------------- definitions


def test_importing_the_environments_does_not_import_mujoco():
    code = "import sys, gymnasium as g, tacit.envs; assert 'tacit/Ant-v0' in g.registry and 'mujoco' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ALL)
def test_the_task_agrees_with_its_model(name):
    task, model = TASKS[name], load_model(TASKS[name])
    assert (model.nq, model.nv, model.nu, model.na) == (task.nq, task.nv, task.nu, 0)
    assert model.opt.timestep * task.frame_skip == task.dt
    np.testing.assert_array_equal(model.actuator_ctrlrange, [[-task.action_high, task.action_high]] * task.nu)
    assert len(set(task.feature_names)) == len(task.feature_names)
    # Motor i drives the joint whose position has the name of action i.
    for action, (joint, _) in zip(task.action_names, model.actuator_trnid, strict=True):
        if action in task.position_names:
            assert task.position_names.index(action) == model.jnt_qposadr[joint]


def test_the_table_of_tasks():
    table = {
        "Ant": (29, 8, 500, "x_position < -3"),
        "HalfCheetah": (18, 6, 1000, "x_position < -3"),
        "Swimmer": (10, 2, 500, "x_position > 0.5"),
        "Walker": (18, 6, 500, "x_position < -3"),
        "Pendulum": (4, 1, 100, "x_position < -0.015"),
        "Point": (9, 2, 150, "x_position <= -3"),
        "BrokenAnt": (29, 8, 500, "x_position < -3"),
        "LevelHalfCheetah": (18, 6, 1000, "x_position < -3"),
        "HalfCheetahVelocity": (17, 6, 1000, "x_velocity > 3.2096"),
        "HopperVelocity": (11, 3, 1000, "x_velocity > 0.7402"),
        "SwimmerVelocity": (8, 2, 1000, "x_velocity > 0.2282"),
    }
    ours = {name: (len(t.feature_names), t.nu, t.horizon, str(t.constraint)) for name, t in TASKS.items()}
    assert ours == table
    assert all((task.feature_names[0] == "x_position") == (name not in SPEED_LIMITED) for name, task in TASKS.items())


def test_walker_keeps_the_two_frictions_and_the_broken_ant_its_front_legs():
    walker = load_model(TASKS["Walker"])
    assert [walker.geom(name).friction[0] for name in ("foot_geom", "foot_left_geom")] == [0.9, 1.9]
    ant = load_model(TASKS["Ant"])
    dead = [ant.actuator_trnid[i, 0] for i in TASKS["BrokenAnt"].dead_actions]
    hips = [joint for joint in dead if ant.joint(joint).name.startswith("hip")]
    assert len(dead) == 4
    assert len(hips) == 2
    assert all(ant.body_pos[ant.jnt_bodyid[joint], 0] < 0 for joint in hips)  # both on the -x side


def scalar_reward(name, before, after, action):
    """The rewards once more, one state at a time."""
    effort = sum(a * a for a in action)
    if name in ("Ant", "BrokenAnt"):
        return math.hypot(after[0], after[1]) + (1.0 if 0.2 <= after[2] <= 1.0 else 0.0) - 0.5 * effort
    if name == "HalfCheetah":
        return abs(after[0] - before[0]) / 0.05 - 0.1 * effort
    if name == "LevelHalfCheetah":
        return abs(after[0] - before[0]) / 0.05 - 0.1 * effort - 2.0 * abs(after[2])
    if name == "Swimmer":
        return abs(after[0] - before[0]) / 0.04 - 1e-4 * effort
    if name == "Walker":
        return abs(after[0] - before[0]) / 0.008 + 1.0 - 1e-3 * effort
    if name == "Pendulum":
        x = after[0]
        return 1.0 if x <= -0.01 else 0.1 if x >= 0 else 0.1 + 0.9 * (-x / 0.01)
    if name == "HalfCheetahVelocity":
        return (after[0] - before[0]) / 0.05 - 0.1 * effort
    if name == "SwimmerVelocity":
        return (after[0] - before[0]) / 0.04 - 1e-4 * effort
    if name == "HopperVelocity":
        upright = after[1] > 0.7 and -0.2 < after[2] < 0.2
        return (after[0] - before[0]) / 0.008 + (1.0 if upright else 0.0) - 1e-3 * effort
    x, y, dx, dy = after[0], after[1], after[0] - before[0], after[1] - before[1]
    return (x * dy - y * dx) / (1 + abs(math.sqrt(x * x + y * y) - 10))


@pytest.mark.parametrize("name", ALL)
def test_rewards_against_a_scalar_version(name):
    task, rng = TASKS[name], np.random.default_rng(1)
    scale = 0.01 if name == "Pendulum" else 1.0
    before, after = scale * rng.normal(size=(2, 300, task.nq))
    velocity, action = rng.normal(size=(300, task.nv)), rng.uniform(-1, 1, (300, task.nu))
    expected = [scalar_reward(name, *row) for row in zip(before, after, action, strict=True)]
    np.testing.assert_allclose(task.reward(before, after, velocity, action), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "bound", "inside", "on_bound"),
    [
        ("Ant", -3.0, 1, False),
        ("HalfCheetah", -3.0, 1, False),
        ("Swimmer", 0.5, -1, False),
        ("Walker", -3.0, 1, False),
        ("Pendulum", -0.015, 1, False),
        ("Point", -3.0, 1, True),
        ("BrokenAnt", -3.0, 1, False),
        ("LevelHalfCheetah", -3.0, 1, False),
        ("HalfCheetahVelocity", 3.2096, -1, False),
        ("HopperVelocity", 0.7402, -1, False),
        ("SwimmerVelocity", 0.2282, -1, False),
    ],
)
def test_the_constraint_at_its_boundary(name, bound, inside, on_bound):
    legal, illegal = np.nextafter(bound, bound + inside), np.nextafter(bound, bound - inside)
    found = TASKS[name].constraint.holds(np.array([legal, bound, illegal]))
    assert found.tolist() == [False, on_bound, True]


def test_termination_rules():
    walker, pendulum = TASKS["Walker"].terminated, TASKS["Pendulum"].terminated
    qpos = np.zeros((7, 9))
    qpos[:, 1] = 1.2
    qpos[1:, 1:3] = [[0.8, 0], [2.0, 0], [1.2, 1.0], [1.2, -1.0], [0.801, 0.999], [np.nan, 0]]
    assert walker(qpos, np.zeros((7, 9))).tolist() == [False, True, True, True, True, False, True]
    qpos = np.array([[0, 0.2], [0, -0.2], [5, 0.0], [0, 0.2001], [0, -0.2001], [np.nan, 0], [0, 0]], float)
    qvel = np.zeros((7, 2))
    qvel[6, 0] = np.inf
    assert pendulum(qpos, qvel).tolist() == [False, False, False, True, True, True, True]
    hopper = TASKS["HopperVelocity"].terminated
    qpos, qvel = np.zeros((6, 6)), np.zeros((6, 6))
    qpos[:, 1] = 1.25
    qpos[1:, 1:4] = [[0.7, 0, 0], [1.25, 0.2, 0], [1.25, -0.2, 0], [1.25, 0.199, 101], [9.0, 0.199, 0]]
    assert hopper(qpos, qvel).tolist() == [False, True, True, True, True, False]
    assert hopper(qpos, qvel + 100).all()
    assert [name for name, task in TASKS.items() if task.terminated] == ["Walker", "Pendulum", "HopperVelocity"]


def test_the_point_circles_counter_clockwise_and_its_mirror_image_earns_the_opposite():
    task = TASKS["Point"]
    angle = np.linspace(0, 6, 50)
    # A full-speed step along the tangent earns 2.5, less a little because it ends a little outside of the circle.
    ideal = 2.5 / (1 + math.hypot(10, 0.25) - 10)
    qpos = np.stack([10 * np.cos(angle), 10 * np.sin(angle), angle + np.pi / 2], axis=1)
    action = np.tile([0.25, 0.0], (50, 1))
    after = task.kinematics(qpos, action)
    np.testing.assert_allclose(task.reward(qpos, after, np.zeros((50, 3)), action), ideal)
    mirror = np.array([1.0, -1.0, -1.0])
    mirrored = task.kinematics(qpos * mirror, action * [1, -1])
    np.testing.assert_allclose(mirrored, after * mirror)
    np.testing.assert_allclose(task.reward(qpos * mirror, mirrored, np.zeros((50, 3)), action), -ideal)
    far = task.kinematics(np.array([[39.9, -39.9, -np.pi / 4]]), np.array([[0.25, 0.0]]))
    np.testing.assert_array_equal(far[0, :2], [40, -40])


# ---------------------------------------------------------------- the single environment


@pytest.mark.parametrize("name", ALL)
def test_gymnasiums_checker_passes(name):
    from gymnasium.utils.env_checker import check_env

    env = gym.make(f"tacit/{name}-v0")
    with warnings.catch_warnings():
        # Joint positions have no bounds, and the boxes of Pendulum and Point are those of the benchmark.
        warnings.filterwarnings("ignore", message=".*Box observation space (minimum|maximum) value is -?infinity.*")
        warnings.filterwarnings("ignore", message=".*recommend using a symmetric and normalized space.*")
        check_env(env.unwrapped, skip_render_check=True)  # it would open a window
    assert env.get_wrapper_attr("feature_names") == TASKS[name].feature_names
    assert env.unwrapped.dt == pytest.approx(TASKS[name].dt)
    env.close()


STOCK = [
    ("HalfCheetah", "HalfCheetah-v5", {}),
    ("Swimmer", "Swimmer-v5", {}),
    ("Walker", "Walker2d-v5", {"xml_file": "walker2d.xml"}),
    ("Ant", "Ant-v5", {}),
    ("Pendulum", "InvertedPendulum-v5", {}),
]


@pytest.mark.parametrize(("name", "stock", "kwargs"), STOCK)
def test_same_starts_and_physics_as_the_stock_robot(name, stock, kwargs, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo logs about a stock model into the working directory
    ours, theirs = RobotEnv(name), gym.make(stock, **kwargs).unwrapped
    start, _ = ours.reset(seed=5)
    theirs.reset(seed=5)
    np.testing.assert_array_equal(start, theirs.state_vector())
    for step in range(20):
        action = np.clip(wave(ours.task, 1, step)[0], -ours.task.action_high, ours.task.action_high)
        obs, *_ = ours.step(action)
        theirs.step(action)
        # Not to the last bit: the stock robots carry the solver's warm start from step to step.
        np.testing.assert_allclose(obs, theirs.state_vector(), rtol=1e-6, atol=1e-7)
    assert np.abs(obs - start).max() > 0.01


LIMITED = [(name, f"{name.removesuffix('Velocity')}-v5") for name in SPEED_LIMITED]


@pytest.mark.parametrize(("name", "stock"), LIMITED)
def test_robots_with_a_speed_limit_are_the_stock_robots(name, stock, monkeypatch, tmp_path):
    """The same observations, rewards and ends; besides, the cost of the observed speed."""
    monkeypatch.chdir(tmp_path)  # MuJoCo logs about a stock model into the working directory
    ours, theirs = gym.make(f"tacit/{name}-v0"), gym.make(stock)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    limit, speed = TASKS[name].constraint.value, TASKS[name].feature_names.index("x_velocity")
    start, _ = ours.reset(seed=5)
    np.testing.assert_array_equal(start, theirs.reset(seed=5)[0])
    for step in range(40):
        action = np.clip(wave(TASKS[name], 1, step)[0], -1, 1)
        obs, reward, terminated, truncated, info = ours.step(action)
        expected, earned, ended, cut, _ = theirs.step(action)
        np.testing.assert_allclose(obs, expected, rtol=1e-6, atol=1e-7)
        assert reward == pytest.approx(earned, abs=1e-6)
        assert (terminated, truncated) == (ended, cut)
        assert info["cost"] == float(obs[speed] > limit)
        if terminated:
            break


def test_the_hopper_sees_no_speed_above_ten():
    env = RobotEnv("HopperVelocity")
    env.reset(seed=0)
    env.set_state(env.init_qpos, np.array([12.0, -12.0, 0, 0, 50.0, 0]))
    obs = env._get_obs()
    assert obs.max() == 10.0
    assert obs.min() == -10.0
    assert env.state_vector().max() == 50.0


@pytest.mark.parametrize("name", ALL)
def test_reset_noise(name):
    task = TASKS[name]
    env = RobotVectorEnv(400, name)
    env.reset(seed=0)
    state = env.get_state()
    spread = state["qpos"] - env.model.qpos0
    assert np.abs(spread).max() <= task.reset_qpos
    assert np.abs(state["qvel"]).max() <= (5 if task.reset_qvel_normal else 1) * task.reset_qvel
    for values, size, normal in (
        (spread, task.reset_qpos, False),
        (state["qvel"], task.reset_qvel, task.reset_qvel_normal),
    ):
        np.testing.assert_allclose(values.std(axis=0), size if normal else size / np.sqrt(3), rtol=0.15)
        assert np.abs(values.mean(axis=0)).max() <= 0.25 * size
    assert not task.costs(task.observe(np.concatenate([state["qpos"], state["qvel"]], axis=1))).any()


@pytest.mark.parametrize("name", ALL)
def test_a_step_is_a_function_of_state_and_action(name):
    env = RobotEnv(name)
    env.reset(seed=1)
    for step in range(15):
        env.step(wave(env.task, 1, step)[0])
    qpos, qvel, action = env.data.qpos.copy(), env.data.qvel.copy(), wave(env.task, 1, 16)[0]
    first = env.step(action)
    for step in range(5):
        env.step(wave(env.task, 1, step)[0])
    env.set_state(qpos, qvel)
    again = env.step(action)
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1:] == again[1:]


@pytest.mark.parametrize("name", ALL)
def test_actions_are_clipped_for_the_motors_and_for_the_reward(name):
    wild, tame = RobotEnv(name), RobotEnv(name)
    wild.reset(seed=0)
    tame.reset(seed=0)
    action = np.linspace(-7, 9, wild.task.nu)
    a, b = wild.step(action), tame.step(np.clip(action, -wild.task.action_high, wild.task.action_high))
    np.testing.assert_array_equal(a[0], b[0])
    assert a[1] == b[1]


def test_the_broken_ant_is_the_ant_with_half_of_its_action():
    broken, ant = RobotEnv("BrokenAnt"), RobotEnv("Ant")
    broken.reset(seed=0)
    ant.reset(seed=0)
    action = np.linspace(-1, 1, 8)
    a, b = broken.step(action), ant.step(np.where(np.arange(8) < 4, action, 0))
    np.testing.assert_array_equal(a[0], b[0])
    assert a[1] == b[1]
    assert not np.array_equal(a[0], ant.step(action)[0])


def test_cost_is_that_of_the_state_reached():
    env = RobotEnv("HalfCheetah")
    env.reset(seed=0)
    for x, v, cost in ((-2.9, -10.0, 1.0), (-3.1, 10.0, 0.0), (0.0, 0.0, 0.0), (-4.0, 0.0, 1.0)):
        qpos, qvel = env.init_qpos.copy(), env.init_qvel.copy()
        qpos[0], qvel[0] = x, v
        env.set_state(qpos, qvel)
        obs, _, terminated, truncated, info = env.step(np.zeros(6))
        assert info["cost"] == cost == float(obs[0] < -3)
        assert not terminated
        assert not truncated


def test_making_a_robot_leaves_no_file_and_no_message(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for name in ALL:
        RobotEnv(name).reset(seed=0)
        RobotVectorEnv(2, name).reset(seed=0)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------- bad input


def test_bad_input():
    for name, hint in (("Antt", "'Ant'"), ("halfcheetah", "'HalfCheetah'"), ("pendulm", "'Pendulum'")):
        with pytest.raises(UserError, match=f"did you mean {hint}"):
            find_task(name)
    with pytest.raises(UserError, match="there are Ant, HalfCheetah"):
        RobotEnv("zzzzzz")
    single, batch = RobotEnv("Ant"), RobotVectorEnv(2, "Ant")
    with pytest.raises(gym.error.ResetNeeded):
        single.step(np.zeros(8))
    with pytest.raises(gym.error.ResetNeeded):
        batch.step(np.zeros((2, 8)))
    single.reset(seed=0)
    batch.reset(seed=0)
    with pytest.raises(UserError, match=r"shape \(8,\), not \(7,\)"):
        single.step(np.zeros(7))
    with pytest.raises(UserError, match=r"shape \(2, 8\), not \(8,\)"):
        batch.step(np.zeros(8))
    with pytest.raises(UserError, match="not finite"):
        single.step(np.full(8, np.nan))
    action = np.zeros((2, 8))
    action[1, 3] = np.inf
    with pytest.raises(UserError, match="copy 1 of Ant"):
        batch.step(action)
    with pytest.raises(UserError, match="qpos of shape"):
        single.set_state(np.zeros(14), np.zeros(14))
    state = batch.get_state()
    with pytest.raises(UserError, match="needs an array 'rng'"):
        batch.set_state({key: value for key, value in state.items() if key != "rng"})
    with pytest.raises(UserError, match="'qpos' of 2 copies"):
        batch.set_state(state | {"qpos": np.zeros((3, 15))})
    for kwargs in ({"noise": -1.0}, {"noise": np.nan}, {"horizon": 0}, {"render_mode": "ascii"}):
        with pytest.raises(UserError):
            RobotEnv("Ant", **kwargs)
    for kwargs in ({"num_envs": 0}, {"nthread": 0}, {"max_episode_steps": 0}, {"render_mode": "human"}):
        with pytest.raises(UserError):
            RobotVectorEnv(**{"num_envs": 1, "task": "Ant", **kwargs})
    with pytest.raises(UserError, match="one entry per copy"):
        batch.reset(seed=[1, 2, 3])
    with pytest.raises(UserError, match="reset_mask"):
        batch.reset(options={"reset_mask": [1, 0]})


# ---------------------------------------------------------------- rendering


def red_share(picture):
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    return ((red > green + 40) & (red > blue + 40)).mean()


def test_pictures_are_red_while_a_robot_is_too_fast():
    env = RobotEnv("HopperVelocity", render_mode="rgb_array", width=120, height=90)
    env.reset(seed=0)
    pictures = []
    for speed in (0.74, 0.75):
        env.set_state(env.init_qpos, np.array([speed, 0, 0, 0, 0, 0]))
        pictures.append(env.render())
    assert red_share(pictures[0]) < 0.25 < red_share(pictures[1])
    env.close()


@pytest.mark.parametrize("name", [name for name in ALL if name not in SPEED_LIMITED])
def test_pictures_show_the_robot_and_the_forbidden_ground(name):
    env = gym.make(f"tacit/{name}-v0", render_mode="rgb_array", width=120, height=90)
    env.reset(seed=0)
    robot = env.unwrapped
    side = {}
    for where in ("legal", "illegal"):
        qpos = robot.init_qpos.copy()
        step = 30.0 if name == "Point" else 5.0
        sign = 1 if (where == "illegal") == (robot.task.constraint.relation == ">") else -1
        qpos[0] = robot.task.constraint.value + sign * min(step, 0.9 if name == "Pendulum" else step)
        robot.set_state(qpos, robot.init_qvel)
        side[where] = env.render()
    assert side["legal"].shape == (90, 120, 3)
    assert side["legal"].dtype == np.uint8
    if name == "Point":  # its camera stands still: the forbidden ground is always in view
        assert 0.1 < red_share(side["legal"]) < 0.9
    else:
        assert red_share(side["legal"]) < 0.25 < red_share(side["illegal"])
    env.close()


@pytest.mark.parametrize("name", ["Ant", "HalfCheetah"])
def test_the_floor_goes_on_for_ever(name):
    """It is drawn to 40 m; a robot beyond that stands on the same tiles as before, and not on nothing."""
    env = gym.make(f"tacit/{name}-v0", render_mode="rgb_array", width=120, height=90)
    env.reset(seed=0)
    robot = env.unwrapped
    pictures = []
    for place in (33.0, 41.0, 201.0):
        qpos = robot.init_qpos.copy()
        qpos[0] = place
        robot.set_state(qpos, robot.init_qvel)
        pictures.append(env.render().astype(int))
    for far in pictures[1:]:
        assert np.abs(far - pictures[0]).mean() < 2.0
    below = pictures[2][60:]  # tiles are black and white
    assert (below.max() - below.min()) > 100
    env.close()


def test_several_pictures_at_once():
    first = gym.make("tacit/Walker-v0", render_mode="rgb_array", width=64, height=64)
    first.reset(seed=0)
    before = first.render()
    batch = gym.make_vec("tacit/Ant-v0", num_envs=2, render_mode="rgb_array", width=64, height=64)
    batch.reset(seed=0)
    frames = batch.render()
    assert len(frames) == 2
    assert (frames[0] != frames[1]).any()
    np.testing.assert_array_equal(first.render(), before)
    batch.close()
    np.testing.assert_array_equal(first.render(), before)
    depth = gym.make("tacit/Walker-v0", render_mode="depth_array", width=64, height=64)
    depth.reset(seed=0)
    assert depth.render().shape == (64, 64)
    depth.close()
    first.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("No module named 'mujoco'", name="mujoco"), r"need MuJoCo: pip install '\.\[robots\]'"),
        (ImportError("its core bindings are missing or corrupted"), "broken, as by an upgrade .* pip uninstall mujoco"),
    ],
)
def test_without_a_mujoco_that_works(monkeypatch, error, said):
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name == "mujoco":
                raise error

    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with pytest.raises(UserError, match=said):
        load_model(find_task("Ant"))
