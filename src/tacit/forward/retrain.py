"""A fresh agent with a frozen cost: the re-training test, and the transfer of a cost to another environment.

    tacit retrain RUN                 where the cost was learned: does it work without the policy it was learned with?
    tacit transfer RUN --to ENV       where its inputs have the same names: does it mean anything there?

The agent knows the reward and the frozen cost, nothing else; what counts is how often it breaks the TRUE constraint.

A learned cost is rarely 0 anywhere. Under a budget of 0 a multiplier would grow for ever and drown the reward, so that
`charge` (on the command line: --as) says what the agent is charged for a step of cost c, and what it may spend:

    soft     k = EDGE (c / tau)^2 up to tau, then a straight line from EDGE to 1 at c = top, with a budget of 0: a set
             with a soft edge on both sides. top is the largest cost of what the run's learner tried. What demonstrators
             usually do costs next to nothing. To pass near the edge costs little, to stay there much: without this an
             agent rides along the threshold, which lies a little beyond the demonstrations
    excess   k = min(max(0, c - tau) / (top - tau), 1), with a budget of 0: the same without the part below tau
    set      1 if the step is forbidden, else 0, with a budget of 0: the agent keeps to the set as `rcpo` keeps to the
             true constraint. Forbidden is c > tau, and what the cost knows nothing about: inputs that are not finite,
             or well outside of everything that its run has seen
    price    c, at a constant price: the agent maximises  R - price c.  The price is the cost's `unit`, with which the
             cost was learned
    budget   c itself, with a budget of what a demonstrated step costs on average
    raw      c itself, with the settings' own budget; multiplier="fixed" makes it the penalised reward  R - lam u c

tau is the threshold of the cost (its own, or that of `tacit calibrate`), or without one the usual threshold of
`tacit.cost.calibration`.

The run folder keeps its own copy of the cost (model/frozen.safetensors, with the charge on its card), so that it can be
resumed when the run that it came from is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.cost import LearnedCost, load_cost
from tacit.cost.calibration import scores, set_threshold, step_costs, usual_threshold
from tacit.cost.card import ranges
from tacit.cost.table import TableCost
from tacit.demos import Demonstrations, load, save
from tacit.envs.fitted_cost import Judge, Limits, highest, limits, seen_of
from tacit.errors import UserError
from tacit.forward import agent, ppo_lagrangian, references
from tacit.forward.collect import MADE_UP, interface_of, make_vec, names_of
from tacit.forward.obedience import obedience
from tacit.policy import Policy
from tacit.run import Run, storage

Array = NDArray[Any]
Cost = LearnedCost | TableCost
MODEL = "frozen"
SAMPLES = "samples.safetensors"
"""What the learner of a run tried; a run without a learner (`box`) has none."""
SEEKERS = "seekers.safetensors"
"""What agents without constraint did, from the run of the cost; for the joint test."""
LABEL = "fresh agent"
SETS = ("soft", "excess", "set")
"""Charges for which steps are forbidden or not, with a soft or a hard edge."""
EDGE = 0.02
"""Charge at the threshold, with a soft edge. Fifty steps there cost an agent about as much as a violation."""


@dataclass(frozen=True)
class Config(references.Settings, ppo_lagrangian.Config):
    """Settings of an agent with a frozen cost: the settings of PPO-Lagrangian, and the cost."""

    cost: str = ""
    """The finished run folder that the cost comes from. Only its name is kept."""
    sha256: str = ""
    """SHA-256 of that cost; computed if not given."""
    which: Literal["cost", "map"] = "cost"
    """The cost that drove the policy, or its additive map (if the run has one)."""
    shared: bool = False
    """If the environment lacks some inputs of an additive cost, use the part that reads the others."""
    charge: Literal["soft", "excess", "set", "price", "budget", "raw"] = "soft"
    """How the cost is used: as a set of forbidden steps with a soft edge (soft), one that begins at the threshold
    (excess) or a hard one (set), as a price on top of the reward (price), with the mean cost of a demonstrated step as
    budget (budget), or with the budget of the settings (raw)."""
    price: float = 0.0
    """Reward per unit of cost for charge "price"; 0: the price at which the cost was learned."""
    threshold: float | None = None
    """Cost above which a step is forbidden, if the cost is used as a set; None: that of the cost, or the usual one."""
    unknown: Literal["forbidden", "free"] = "forbidden"
    """Whether a set forbids what lies well outside of everything that the run of the cost has seen. Inputs that are not
    finite are always forbidden."""
    margin: str = ""
    """How much further the cost reaches out, in units of its inputs: "x=0.05 v=0.02". Only for a cost of terms."""
    free: bool = False
    """Accept a cost that forbids nothing that its learner tried."""

    ADDED: ClassVar[Mapping[str, Any]] = {
        "price": 0.0,
        "threshold": None,
        "unknown": "forbidden",
        "margin": "",
    }
    """Settings that were added later, for the names of runs; see `tacit.run.naming.History`."""


@dataclass(frozen=True)
class Charge:
    """How an agent is charged for a cost c, and its budget; see the module's docstring."""

    kind: str
    threshold: float
    top: float
    budget: float
    """Mean cost of a demonstrated step."""
    price: float = 1.0
    """Reward per unit of cost."""
    seen: Limits = field(default_factory=dict)
    """{input: (low, high)} beyond which a set forbids."""

    @property
    def nothing(self) -> bool:
        """Whether the learner tried nothing that costs more than the threshold: nothing would be forbidden."""
        return self.kind in SETS and not self.top > self.threshold

    def of(self, cost: Cost) -> ppo_lagrangian.CostFunction:
        """The function (obs, act, next_obs) -> charge."""
        if self.kind == "set":
            return self._forbidden(cost)
        if self.kind not in SETS:
            return cost.of_steps
        if self.nothing:
            return lambda obs, act, next_obs: np.zeros(len(obs))
        tau, width = self.threshold, self.top - self.threshold
        edge = EDGE if self.kind == "soft" else 0.0

        def charged(obs: Array, act: Array, next_obs: Array) -> Array:
            costs = np.asarray(cost.of_steps(obs, act, next_obs), dtype=np.float64)
            near = np.clip(costs / tau, 0.0, 1.0) ** 2 if tau > 0 else np.zeros(len(costs))
            return edge * near + (1.0 - edge) * np.clip((costs - tau) / width, 0.0, 1.0)

        return charged

    def _forbidden(self, cost: Cost) -> ppo_lagrangian.CostFunction:
        judge = Judge(cost, seen_of(cost, self.seen))

        def forbidden(obs: Array, act: Array, next_obs: Array) -> Array:
            judgement = judge.judge(next_obs if cost.at == "next" else obs, act)
            return judgement.forbidden(self.threshold).astype(np.float64)

        return forbidden


# ---------------------------------------------------------------------------------------------------------------------
# The cost


def charge_of(cost: Cost, source: Run, config: Config) -> Charge:
    """The charge, computed from the run's demonstrations and from the states that its learner tried.

    UserError for a cost that forbids nothing, unless that may be `free`.
    """
    demos = source.learned_from()
    if isinstance(cost, TableCost) or not (source.path / SAMPLES).exists():
        top = highest(cost)
    else:
        arrays = storage.load_arrays(source.path / SAMPLES)[0]
        tried = [arrays[name] for name in ("nominal", "history", "learner") if name in arrays]
        width = cost.inputs.width  # samples may have actions that the cost does not read
        top = float(cost.of_rows(np.concatenate(tried)[:, :width]).max())
    tau = cost.threshold if config.threshold is None else config.threshold
    if tau is None:
        choose = set_threshold if config.charge == "set" else usual_threshold
        tau = choose(scores(cost, demos), top)
    charge = Charge(
        config.charge,
        float(tau),
        top,
        float(step_costs(cost, demos).mean()),
        config.price or float(cost.unit),
        {} if isinstance(cost, TableCost) or config.unknown == "free" else limits(cost, ranges(source, cost)),
    )
    if charge.nothing and not config.free:
        raise UserError(
            f"the cost of {source.path} forbids nothing that its learner tried, so nothing would be charged: "
            f"the learner's states cost at most {top:.4g}, and the threshold is {tau:.4g}. "
            "Use --as price to charge the cost itself"
        )
    return charge


def fit(cost: Cost, names: Sequence[str], act_size: int, shared: bool, env_id: str) -> Cost:
    """The cost, or the part of it, that can be computed from observations with these names; still in its own layout.

    UserError that names what is missing, and says what can be done about it.
    """
    if isinstance(cost, TableCost):
        return cost.of_names(names)
    inputs = cost.inputs
    there = [
        name
        for name, column in zip(inputs.names, inputs.columns, strict=True)
        if inputs.is_in(name, column, names, act_size)
    ]
    missing = [name for name in inputs.names if name not in there]
    if not missing:
        return cost
    lack = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
    text = f"{env_id} has no {lack}, which the cost reads."
    if not there:
        raise UserError(f"{text} They have no input in common: there is nothing to transfer")
    common = " ".join(there[:4])
    if cost.weights:
        raise UserError(
            f"{text} It is a network on all of its inputs together; learn one of what both have, with `tacit learn ... "
            f"--inputs {common}`"
        )
    if not shared:
        raise UserError(
            f"{text} Learn a cost of what both have, with `tacit learn ... --inputs {common}`; or, because this one is "
            f"additive, --shared keeps its part that reads {', '.join(there)} and drops the rest"
        )
    return cost.only(there)


def prepare(
    source: Run, env_id: str, env_kwargs: Mapping[str, Any], config: Config
) -> tuple[Cost, Charge, Demonstrations | None]:
    """(cost in the layout of this environment, charge, demonstrations if they are of the same environment)."""
    if not source.done:
        raise UserError(f"{source.path} is not finished: continue it with `tacit resume {source.path}`")
    with closing(make_vec(env_id, 1, **env_kwargs)) as env:
        interface = interface_of(env, scaled=config.scale_actions)
        names = names_of(env, interface)
    whole = with_margin(load_cost(source, config.which), config.margin)
    if isinstance(whole, TableCost) and interface.n_states:
        raise UserError("a table of states is read by row and column: this needs observation=position")
    part = fit(whole, names, interface.act_size, config.shared, env_id)
    made_up = [name for name in part.names if MADE_UP.fullmatch(name)]
    if made_up and source.config["env"].rpartition(":")[2] != env_id.rpartition(":")[2]:
        raise UserError(
            f"{source.config['env']} does not name its features: {made_up[0]} may be something else in {env_id}. Give "
            "both environments an attribute `feature_names`, and learn the cost again"
        )
    charge = charge_of(part, source, config)
    same = source.config["env"] == env_id and source.config["env_kwargs"] == dict(env_kwargs)
    about = {
        "run": source.name,
        "algo": source.config["algo"],
        "env": source.config["env"],
        "seed": source.config["seed"],
        "which": config.which,
        "left_out": [name for name in whole.names if name not in part.names],
        "charge": asdict(charge),
    }
    return part.of_names(names).with_card(frozen=about), charge, source.demonstrations() if same else None


def fingerprint(source: Run, which: str) -> str:
    """SHA-256 of a cost and its threshold. Runs of the same name may differ, and a calibration changes the charge."""
    cost = load_cost(source, which)
    about = {"arrays": storage.sha256_of_arrays(cost.to_arrays()[0]), "threshold": cost.threshold}
    return storage.sha256_of_bytes(storage.to_json(about, sort_keys=True).encode())


def bring(run: Run, config: Config) -> None:
    """Copy the cost into the run folder, because the settings do not keep the path of its source."""
    if _copy_of(run).exists() or config.sha256:
        return
    source = Run.open(config.cost)
    cost, _, demos = prepare(source, run.config["env"], run.config["env_kwargs"], config)
    with run:
        if demos is not None:
            save(demos, run.path / "demos.npz")
            if (source.path / SAMPLES).exists():
                tried = storage.load_arrays(source.path / SAMPLES)[0]
                storage.save_arrays(run.path / SEEKERS, {"rows": tried["nominal"]}, {})
        run.save_model(MODEL, *cost.to_arrays())  # last, so that its presence means that all is there


def with_margin(cost: Cost, margin: str) -> Cost:
    """The cost with margins that are given as "NAME=VALUE NAME=VALUE"."""
    if not margin:
        return cost
    if not isinstance(cost, LearnedCost):
        raise UserError("a table of states has no margin: only a cost of terms can have one")
    margins = {}
    for pair in margin.split():
        name, _, value = pair.rpartition("=")
        try:
            margins[name] = float(value)
        except ValueError:
            raise UserError(f"a margin is NAME=VALUE, such as v=0.02, not {pair!r}") from None
    return cost.with_margin(margins)


def frozen(run: Run) -> tuple[Cost, Charge]:
    """The frozen cost of this run folder, and its charge."""
    if not _copy_of(run).exists():
        raise UserError(f"{run.path} has no copy of its cost: start it again with the command that it was started with")
    cost = load_cost(run, MODEL)
    return cost, Charge(**cost.card["frozen"]["charge"])


def _copy_of(run: Run) -> Path:
    return run.path / "model" / f"{MODEL}.safetensors"


# ---------------------------------------------------------------------------------------------------------------------
# In a run folder


def check(env_id: str, env_kwargs: Mapping[str, Any], config: Config) -> None:
    """UserError for settings that cannot work, before anything is written."""
    if not config.cost:
        raise UserError("no cost is named: use `tacit retrain RUN` or `tacit transfer RUN --to ENV`")
    references.check(env_id, env_kwargs, config)
    agent.check_ranges(config, ("price",), 0)
    if not config.sha256:
        prepare(Run.open(config.cost), env_id, env_kwargs, config)


def settle(config: Config) -> Config:
    """The settings with the cost named by its hash instead of its path, so every machine gets the same run folder."""
    if config.sha256:
        return config
    source = Run.open(config.cost)
    return replace(config, cost=source.path.absolute().name, sha256=fingerprint(source, config.which))


def train(
    run: Run, env_id: str, env_kwargs: Mapping[str, Any], demos: Demonstrations | None, config: Config, seed: int
) -> dict[str, Any]:
    """Train and evaluate. Continues from the newest checkpoint if there is one."""
    cost, charge = frozen(run)
    charged = charge.of(cost)
    settings = engine_of(config, charge)
    reference = references.Reference(
        label=LABEL,
        statement=_statement(cost, env_id, charge),
        engine=ppo_lagrangian,
        learn=lambda env, _, seed, state: ppo_lagrangian.learn(env, settings, seed, state, cost=charged),
    )
    demonstrations = load(run.path / "demos.npz") if (run.path / "demos.npz").exists() else None
    summary = reference.train(run, env_id, env_kwargs, demonstrations, config, seed)
    policy = Policy.from_arrays(*run.load_model("policy"))
    seekers = storage.load_arrays(run.path / SEEKERS)[0]["rows"] if (run.path / SEEKERS).exists() else None
    obeys = obedience(
        env_id,
        dict(env_kwargs),
        policy,
        cost,
        charge.threshold,
        charge.seen,
        demonstrations,
        seekers,
        config.eval_episodes,
        seed,
    )
    return {**summary, **obeys, "source": cost.card["frozen"]}


def engine_of(config: Config, charge: Charge) -> Config:
    """The settings of the engine for a charge.

    Only a set, with a hard or a soft edge, is nearly 0 where nothing is forbidden. A cost that is positive everywhere
    would end the income everywhere (`forfeit`), so the other charges have an additive price: a constant one, or that of
    Tessler's RCPO with its ascent by sums.
    """
    if charge.kind in SETS:
        return config
    settings = replace(config, forfeit=0.0)
    if charge.kind == "price":
        return replace(settings, multiplier="fixed", penalty_unit="reward", multiplier_init=charge.price)
    if ppo_lagrangian.grows_by_factor(config):
        settings = replace(settings, ascent_by="sum", multiplier_init=1.0, multiplier_lr=0.5, budget_per="step")
    return replace(settings, budget=max(0.0, charge.budget)) if charge.kind == "budget" else settings


def _statement(cost: Cost, env_id: str, charge: Charge) -> str:
    about = cost.card["frozen"]
    there = "where it was learned" if about["env"] == env_id else f"learned in {about['env']}"
    text = f"A fresh agent that knows the reward and the frozen {about['which']} of {about['run']} ({there})."
    if about["left_out"]:
        text += f" It reads {', '.join(cost.names)}; {len(about['left_out'])} inputs that are not here are left out."
    beyond = f" or lies outside of what was seen of {', '.join(charge.seen)}" if charge.seen else ""
    spent = {
        "set": f"A step that costs more than {charge.threshold:.4g}{beyond} is forbidden.",
        "price": f"It pays {charge.price:.4g} per unit of cost.",
        "soft": f"It is charged little up to {charge.threshold:.4g}, then more, 1 from {charge.top:.4g} on.",
        "excess": f"It is charged what exceeds {charge.threshold:.4g}, 1 for a cost of {charge.top:.4g} or more.",
        "budget": f"It may spend what a demonstrated step costs on average, {charge.budget:.4g}.",
        "raw": "It is charged the cost itself.",
    }
    nothing = "The cost forbids nothing that its learner tried" + (
        ": nothing is charged." if charge.kind in ("soft", "excess") else f". {spent[charge.kind]}"
    )
    return f"{text} {nothing if charge.nothing else spent[charge.kind]}"
