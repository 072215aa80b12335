"""Rollouts: N copies of an environment stepped T times with the current policy, in NumPy.

One JAX call per step would cost more than the whole step of a small network in NumPy; log-probabilities and values are
computed later, in one batch. Environments are Gymnasium vector environments that reset a finished copy within the same
step (AutoresetMode.SAME_STEP) or in the next one (NEXT_STEP, Gymnasium's default). One that offers
`step_arrays(actions) -> (obs, reward, cost, terminated, truncated, final_obs)` is stepped through it; one that resets
within the same step and offers `get_state()`/`set_state()` resumes bit by bit.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost.surroundings import Surroundings
from tacit.envs.capabilities import capabilities
from tacit.envs.registry import autoreset_mode, feature_names, resets_same_step
from tacit.envs.registry import make_vec as make_vec
from tacit.errors import RunFailed, UserError
from tacit.policy import Interface, Policy

Array = NDArray[Any]
StepResult = tuple[Array, Array, Array | None, Array, Array, Array]
RECENT = 100
"""Number of finished episodes in the running averages."""


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments. `done` = terminated or truncated."""

    obs: Array
    """(T, N, obs_size) float32, encoded but not normalised."""
    act: Array
    """(T, N, A) float32 in the policy's own coordinates, neither rescaled nor clipped; (T, N) integers if discrete."""
    sent: Array
    """(T, N, A) the action that the environment received; the same as `act` if discrete."""
    next_obs: Array
    """(T, N, obs_size) the state that the step reached, even if a new episode has begun."""
    rew: Array
    """(T, N) float64, as the environment gave it."""
    cost: Array | None
    """(T, N) float64: the environment's own info["cost"]; None if it reports none."""
    terminated: Array
    done: Array
    times: Array
    """(T, N) number of the step within its episode, from 0."""

    def __len__(self) -> int:
        return int(self.done.size)

    def flat(self) -> tuple[Array, Array, Array]:
        """(obs, sent, next_obs) with one row per sample: the arguments of a learned cost."""
        return tuple(x.reshape(-1, *x.shape[2:]) for x in (self.obs, self.sent, self.next_obs))  # type: ignore[return-value]


@dataclass(frozen=True)
class Carry:
    """The state of the environments between two rollouts."""

    obs: Array
    """(N, obs_size) current observations, encoded."""
    episode: Array
    """(3, N) return, length and cost of the running episodes so far."""
    recent: Array
    """(k, 3) return, length and cost of the last k <= 100 finished episodes, oldest first."""
    env_state: dict[str, Array] | None
    """Result of the environment's `get_state`; None if it has none."""
    resetting: Array | None = None
    """(N,) copies that reset in the next step (AutoresetMode.NEXT_STEP). Not saved: such copies start new episodes."""


def interface_of(env: VectorEnv, *, scaled: bool = True) -> Interface:
    """The policy's view of the environment. UserError if no policy can run in it."""
    if autoreset_mode(env) not in ("SameStep", "NextStep"):
        raise UserError(
            "the vector environment must reset its copies automatically, but its mode is"
            f" {env.metadata.get('autoreset_mode')}: make it with"
            " autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP"
        )
    interface = Interface.of(env.single_observation_space, env.single_action_space, scaled=scaled)
    slots = capabilities(env).objects
    if slots is None or interface.n_states:
        return interface
    high = np.asarray(getattr(env.single_observation_space, "high", np.full(interface.obs_size, np.inf)))
    return replace(interface, surroundings=Surroundings.of(slots, names_of(env, interface), high))


MADE_UP = re.compile(r"(obs|state)\[\d+\]")
"""Names of entries without a name. The same one may mean different things in two environments."""


def names_of(env: VectorEnv, interface: Interface) -> tuple[str, ...]:
    """Names of the encoded observation's entries; MADE_UP names if the environment gives none."""
    names = feature_names(env)
    if interface.n_states:
        return tuple(f"state[{i}]" for i in range(interface.n_states))
    if names is not None and len(names) == interface.obs_size:
        return tuple(names)
    return tuple(f"obs[{i}]" for i in range(interface.obs_size))


def begin(env: VectorEnv, interface: Interface, seed: int) -> Carry:
    """Reset all environments."""
    try:
        obs, _ = env.reset(seed=seed)
    except Exception as error:
        raise RunFailed(f"the environment raised {type(error).__name__} in a reset: {error}") from error
    return Carry(interface.encode(obs), np.zeros((3, env.num_envs)), np.zeros((0, 3)), _state_of(env))


def restore(env: VectorEnv, interface: Interface, carry: Carry, seed: int) -> Carry:
    """Restore the environments to `carry`, in this or another process."""
    if carry.obs.shape[0] != env.num_envs:
        raise UserError(f"the state is of {carry.obs.shape[0]} environments, but {env.num_envs} were given")
    access = capabilities(env).state
    if carry.env_state is not None and access is not None:
        access.set(carry.env_state)
        return carry
    warnings.warn(
        "the environment cannot restore its state (it has no set_state, or resets in a step of its own): running "
        "episodes begin anew",
        stacklevel=3,
    )
    fresh = begin(env, interface, seed)
    return Carry(fresh.obs, fresh.episode, carry.recent, fresh.env_state)


def _state_of(env: VectorEnv) -> dict[str, Array] | None:
    access = capabilities(env).state if resets_same_step(env) else None
    return None if access is None else access.get()


def collect(
    env: VectorEnv, policy: Policy, carry: Carry, n_steps: int, rng: np.random.Generator
) -> tuple[Rollout, Carry]:
    """Step all environments T = n_steps times. RunFailed if one raises, or returns a number that is not finite."""
    rollout, carry = (_collect if resets_same_step(env) else _collect_late)(env, policy, carry, n_steps, rng)
    cost = np.zeros(0) if rollout.cost is None else rollout.cost
    _require_finite(rollout.obs, rollout.next_obs, rollout.rew, cost)
    return rollout, carry


def _collect(
    env: VectorEnv, policy: Policy, carry: Carry, n_steps: int, rng: np.random.Generator
) -> tuple[Rollout, Carry]:
    """A rollout from copies that reset within the same step, so every step belongs to an episode."""
    interface, n = policy.interface, env.num_envs
    noise = policy.noise(rng, (n_steps, n))
    obs, act, sent, next_obs, rew, cost, terminated, done = _empty(interface, n_steps, n)
    has_cost = True
    step = _stepper(env, interface)
    current = carry.obs
    for t in range(n_steps):
        obs[t] = current
        act[t] = policy.perturb(policy.head(current), noise[t])
        if sent is not act:
            sent[t] = interface.to_env(act[t])
        try:
            current, rew[t], costs, terminated[t], truncated, next_obs[t] = step(sent[t])
        except Exception as error:
            raise RunFailed(f"the environment raised {type(error).__name__} in a step: {error}") from error
        done[t] = terminated[t] | truncated
        if costs is None:
            has_cost = False
        else:
            cost[t] = costs
    times = _times(carry.episode[1], done)
    rollout = Rollout(obs, act, sent, next_obs, rew, cost if has_cost else None, terminated, done, times)
    episode, recent = _episodes(carry, rew, cost, done)
    return rollout, Carry(current, episode, recent, _state_of(env))


def _collect_late(
    env: VectorEnv, policy: Policy, carry: Carry, n_steps: int, rng: np.random.Generator
) -> tuple[Rollout, Carry]:
    """A rollout from copies that reset in a step of their own. That step is no sample, so such a copy lags behind.

    All copies step together until the last one has its T samples. Further steps of the other copies belong to their
    running episodes but not to the rollout. They are at most as many as one copy has resets.
    """
    interface, n = policy.interface, env.num_envs
    obs, act, sent, next_obs, rew, cost, terminated, done = _empty(interface, n_steps, n)
    times = np.empty((n_steps, n), np.int64)
    has_cost = True
    count = np.zeros(n, np.int64)
    current, episode, finished = carry.obs, carry.episode.copy(), [carry.recent]
    resetting = np.zeros(n, bool) if carry.resetting is None else carry.resetting
    while (count < n_steps).any():
        actions = policy.perturb(policy.head(current), policy.noise(rng, (1, n))[0])
        given = actions if interface.n_actions else interface.to_env(actions)
        try:
            reached, rewards, ended, truncated, info = env.step(given)
        except Exception as error:
            raise RunFailed(f"the environment raised {type(error).__name__} in a step: {error}") from error
        reached = interface.encode(reached)
        over = (np.asarray(ended) | np.asarray(truncated)) & ~resetting
        has_cost &= "cost" in info or bool(resetting.all())
        costs = np.asarray(info.get("cost", np.zeros(n)), np.float64)
        copies = np.flatnonzero(~resetting & (count < n_steps))
        at = (count[copies], copies)
        parts = (current, actions, given, reached, rewards, costs, ended, over, episode[1])
        for array, part in zip((obs, act, sent, next_obs, rew, cost, terminated, done, times), parts, strict=True):
            array[at] = np.asarray(part)[copies]
        count[copies] += 1
        episode += np.where(resetting, 0.0, np.stack([np.asarray(rewards, np.float64), np.ones(n), costs]))
        finished.append(episode[:, over].T.copy())
        episode[:, over] = 0.0
        current, resetting = reached, over
    rollout = Rollout(obs, act, sent, next_obs, rew, cost if has_cost else None, terminated, done, times)
    return rollout, Carry(current, episode, np.concatenate(finished)[-RECENT:], None, resetting)


def _empty(interface: Interface, n_steps: int, n: int) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """Empty arrays for (obs, act, sent, next_obs, rew, cost, terminated, done) of a rollout."""
    obs = np.empty((n_steps, n, interface.obs_size), np.float32)
    shape = (n_steps, n) if interface.n_actions else (n_steps, n, interface.act_size)
    act = np.empty(shape, np.int64 if interface.n_actions else np.float32)
    sent = act if interface.n_actions else np.empty_like(act)
    rew, cost = np.empty((n_steps, n)), np.zeros((n_steps, n))
    terminated, done = np.empty((n_steps, n), bool), np.empty((n_steps, n), bool)
    return obs, act, sent, np.empty_like(obs), rew, cost, terminated, done


def _require_finite(obs: Array, next_obs: Array, rew: Array, cost: Array) -> None:
    """RunFailed if a number in a rollout is not finite. It names the first one, which may be the cause of the rest."""
    problems = []
    for order, (name, array) in enumerate(
        (("observation to begin with", obs), ("observation", next_obs), ("reward", rew), ("cost", cost))
    ):
        if not np.isfinite(array).all():
            t, i = (int(k[0]) for k in np.nonzero(~np.isfinite(array))[:2])
            problems.append((t, order, name, i))
    if problems:
        t, _, name, i = min(problems)
        what = "an" if name[0] == "o" else "a"
        raise RunFailed(
            f"the environment returned {what} {name} that is not finite (step {t} of the rollout, copy {i})"
        )


def _stepper(env: VectorEnv, interface: Interface) -> Callable[[Array], StepResult]:
    """actions -> (obs to act on, reward, cost or None, terminated, truncated, obs reached), observations encoded."""
    step_arrays = capabilities(env).step_arrays

    def fast(actions: Array) -> StepResult:
        assert step_arrays is not None
        obs, reward, cost, terminated, truncated, reached = step_arrays(actions)
        same = reached is obs
        obs = interface.encode(obs)
        return obs, reward, cost, terminated, truncated, obs if same else interface.encode(reached)

    def general(actions: Array) -> StepResult:
        obs, reward, terminated, truncated, info = env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        obs = interface.encode(obs)
        reached, cost = obs, info.get("cost")
        if ended.any():
            rows = np.flatnonzero(ended)
            reached = obs.copy()
            reached[rows] = interface.encode(np.stack([np.asarray(info["final_obs"][i]) for i in rows]))
            # The row of info["cost"] belongs to the new episode; what the last step cost is in final_info.
            last = info.get("final_info", {}).get("cost")
            if last is not None:
                cost = np.where(ended, last, 0.0 if cost is None else cost)
        costs = None if cost is None else np.asarray(cost, np.float64)
        return obs, np.asarray(reward, np.float64), costs, terminated, truncated, reached

    return general if step_arrays is None else fast


def _times(lengths: Array, done: Array) -> Array:
    """(T, N) step numbers, given the steps that the running episodes already have."""
    times = np.empty(done.shape, np.int64)
    now = lengths.astype(np.int64)
    for t in range(len(done)):
        times[t] = now
        now = np.where(done[t], 0, now + 1)
    return times


def _episodes(carry: Carry, rew: Array, cost: Array, done: Array) -> tuple[Array, Array]:
    """The running and the finished episodes after these steps."""
    running, finished = carry.episode, [carry.recent]
    for t in range(len(rew)):
        running = running + np.stack([rew[t], np.ones_like(rew[t]), cost[t]])
        if done[t].any():
            finished.append(running[:, done[t]].T)
            running = np.where(done[t], 0.0, running)
    return running, np.concatenate(finished)[-RECENT:]


def metrics(rollout: Rollout, carry: Carry, steps: int) -> dict[str, float]:
    """Averages over the rollout, and over the last finished episodes if any."""
    out = {"time/total_steps": float(steps), "rollout/rew_mean": float(rollout.rew.mean())}
    if rollout.cost is not None:
        out["rollout/cost_mean"] = float(rollout.cost.mean())
    if len(carry.recent):
        ep_rew, ep_len, ep_cost = map(float, carry.recent.mean(axis=0))
        out |= {"rollout/ep_rew_mean": ep_rew, "rollout/ep_len_mean": ep_len}
        if rollout.cost is not None:
            out["rollout/ep_cost_mean"] = ep_cost
            out["rollout/ep_violation_rate"] = float((carry.recent[:, 2] > 0).mean())
    return out


def times(steps: int, started: float, collected: float) -> dict[str, float]:
    """Speed of an iteration of `steps` environment steps that began at `started` and learned from `collected` on."""
    now = time.perf_counter()
    return {
        "time/fps": steps / (now - started),
        "time/rollout_seconds": collected - started,
        "time/update_seconds": now - collected,
    }
