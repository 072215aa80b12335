"""Export policies and costs as ONNX graphs, with scaling and clipping built in, and check them.

    onnx.save(policy_graph(policy), "policy.onnx")
    export(run, "deploy/")                              policy.onnx, cost.onnx, map.onnx: what the run has

The batch is the first axis of everything. A policy has the input

    obs          float32 (N, obs_size); int64 (N,) for a Discrete observation

and the outputs

    action       the most likely action, as the environment takes it: float32 (N, A), rescaled and clipped to the box,
                 or int64 (N,)
    mean, std    float32 (N, A), (A,): the Gaussian before clipping, in the environment's units. To draw an action:
                 clip(mean + std * normal, low, high)
    logits       float32 (N, n_actions) of a discrete policy, instead of mean and std

A cost has the inputs obs and, if it reads actions, act: float32 (N, A) or int64 (N,); and the outputs

    cost         float32 (N,)
    forbidden    bool (N,): above the threshold, if the cost has one

`obs` is the observation that the cost is about: after the step if the card says at = "next". The card is the graph's
metadata `tacit`, as JSON. The graphs are written node by node with `onnx.helper`: no torch, no tracing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.cost import BETA_FLOOR, LEAK, LearnedCost, load_cost
from tacit.cost.objects import Nearest
from tacit.cost.terms import between
from tacit.interop import TOLERANCE, difference, network_policy, require_equal, require_plain
from tacit.policy import Policy
from tacit.run import storage

if TYPE_CHECKING:
    from onnx import ModelProto

    from tacit.run import Run

OPSET = 18
IR_VERSION = 9
"""Version of the file format, old enough for every current runtime."""


class _Graph:
    """Nodes and constants while they are collected."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array, dtype=dtype), name))
        return name

    def add(self, op: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        """One node; returns the name of its output."""
        from onnx import helper

        output = name or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [output], **attributes))
        return output

    def within(self, x: str, low: Any, high: Any, **name: str) -> str:
        """x cut to [low, high]; Min and Max let NaN through as NumPy does."""
        return self.add("Min", self.add("Max", x, self.constant(low)), self.constant(high), **name)

    def dense(self, x: str, weight: NDArray[Any], bias: NDArray[Any]) -> str:
        return self.add("Add", self.add("MatMul", x, self.constant(weight)), self.constant(bias))

    def one_hot(self, x: str, n: int) -> str:
        return self.add("Gather", self.constant(np.eye(n)), x, axis=0)

    def model(
        self, name: str, inputs: dict[str, tuple[Any, list[Any]]], outputs: dict[str, tuple[Any, list[Any]]], card: Any
    ) -> ModelProto:
        import onnx
        from onnx import helper

        def values(named: dict[str, tuple[Any, list[Any]]]) -> list[Any]:
            return [
                helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
                for key, (dtype, shape) in named.items()
            ]

        graph = helper.make_graph(self.nodes, name, values(inputs), values(outputs), self.constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="tacit",
            producer_version=tacit.__version__,
        )
        helper.set_model_props(model, {"tacit": storage.to_json(card, sort_keys=True)})
        onnx.checker.check_model(model, full_check=True)
        return model


def policy_graph(policy: Policy) -> ModelProto:
    """The policy with its normalisation, rescaling and clipping."""
    require_plain(policy)
    interface, g = policy.interface, _Graph()
    x = g.one_hot("obs", interface.n_states) if interface.n_states else "obs"
    x = g.add("Mul", g.add("Sub", x, g.constant(policy.obs_mean)), g.constant(policy.obs_scale))
    if math.isfinite(policy.obs_clip):
        x = g.within(x, -policy.obs_clip, policy.obs_clip)
    for weight, bias in zip(policy.weights[:-1], policy.biases[:-1], strict=True):
        x = g.add("Tanh", g.dense(x, weight, bias))
    head = g.dense(x, policy.weights[-1], policy.biases[-1])
    obs: dict[str, tuple[Any, list[Any]]]
    obs = {"obs": (np.int64, ["N"]) if interface.n_states else (np.float32, ["N", interface.obs_size])}
    card = policy.to_arrays()[1]
    if interface.n_actions:
        g.add("Identity", head, name="logits")
        g.add("ArgMax", head, name="action", axis=-1, keepdims=0)
        return g.model(
            "policy", obs, {"action": (np.int64, ["N"]), "logits": (np.float32, ["N", interface.n_actions])}, card
        )
    assert policy.log_std is not None
    low, high, centre, half = interface.box
    g.add("Add", g.add("Mul", head, g.constant(half)), g.constant(centre), name="mean")
    g.within("mean", low, high, name="action")
    g.add("Identity", g.constant(np.exp(policy.log_std) * half), name="std")
    shape: tuple[Any, list[Any]] = (np.float32, ["N", interface.act_size])
    return g.model("policy", obs, {"action": shape, "mean": shape, "std": (np.float32, [interface.act_size])}, card)


def cost_graph(cost: LearnedCost) -> ModelProto:
    """The cost with its scaling, squashing and clipping."""
    inputs, g = cost.inputs, _Graph()
    named: dict[str, tuple[Any, list[Any]]] = {"obs": (np.float32, ["N", inputs.obs_size])}
    rows = "obs"
    if inputs.act_size:
        named["act"] = (np.int64, ["N"]) if inputs.n_actions else (np.float32, ["N", inputs.act_size])
    if inputs.derived or inputs.act_size:
        act = [g.one_hot("act", inputs.n_actions) if inputs.n_actions else "act"] if inputs.act_size else []
        rows = g.add("Concat", "obs", *(_nearest(g, one) for one in inputs.derived), *act, axis=-1)
    if cost.is_sum:
        _sum_of_terms(g, cost, rows)
        return _with_threshold(g, cost, named)
    x = g.add("Gather", rows, g.constant(inputs.columns, np.int64), axis=1)
    x = g.add("Div", g.add("Sub", x, g.constant(inputs.centre)), g.constant(inputs.scale))
    if inputs.squash:
        x = g.add("Asinh", x)
    if math.isfinite(inputs.clip):
        x = g.within(x, -inputs.clip, inputs.clip)
    features = _features(g, cost, x)
    total = g.add("MatMul", features, g.constant(cost.lam[:, None]))
    g.add("Squeeze", total, g.constant([1], np.int64), name="cost")
    return _with_threshold(g, cost, named)


def _nearest(g: _Graph, one: Nearest) -> str:
    """(N, 1) the distance to the nearest object."""

    def entries(columns: Sequence[int]) -> str:
        return g.add("Gather", "obs", g.constant(columns, np.int64), axis=1)

    places, flags = one.columns[: len(one.position)], one.columns[len(one.position) :]
    offsets = [entries(columns) for columns in places]
    if one.origin:
        origin = [entries([column]) for column in one.origin_columns]
        offsets = [g.add("Sub", x, own) for x, own in zip(offsets, origin, strict=True)]
    distance = g.add("Sqrt", g.add("Sum", *(g.add("Mul", x, x) for x in offsets)))
    far = g.constant(one.far)
    for columns in flags:
        distance = g.add("Where", g.add("Greater", entries(columns), g.constant(0.5)), distance, far)
    return g.add("Min", g.add("ReduceMin", distance, g.constant([1], np.int64), keepdims=1), far)


def _with_threshold(g: _Graph, cost: LearnedCost, named: dict[str, tuple[Any, list[Any]]]) -> ModelProto:
    """The model whose node "cost" is there, and "forbidden" if the cost has a threshold."""
    outputs: dict[str, tuple[Any, list[Any]]] = {"cost": (np.float32, ["N"])}
    if cost.threshold is not None:
        g.add("Greater", "cost", g.constant(cost.threshold), name="forbidden")
        outputs["forbidden"] = (np.bool_, ["N"])
    return g.model("cost", named, outputs, cost.to_arrays()[1])


def _sum_of_terms(g: _Graph, cost: LearnedCost, rows: str) -> None:
    """The node "cost" (N,): hat functions of one input, times the table, times those of the other."""
    zero = g.constant(np.zeros((1,), np.float32))
    total = g.add("Mul", g.add("ReduceSum", rows, g.constant([1], np.int64), keepdims=1), zero)
    for term in cost.terms:
        hats = []
        for column, knots in zip(term.columns, term.knots, strict=True):
            low, middle, high = between(knots)
            x = g.within(g.add("Gather", rows, g.constant([column], np.int64), axis=1), middle[0], middle[-1])
            rising = g.add("Div", g.add("Sub", x, g.constant(low)), g.constant(middle - low))
            falling = g.add("Div", g.add("Sub", g.constant(high), x), g.constant(high - middle))
            hats.append(g.within(g.add("Min", rising, falling), 0.0, 1.0))
        if len(hats) == 1:
            part = g.add("MatMul", hats[0], g.constant(term.values[:, None]))
        else:
            lines = g.add("Mul", g.add("MatMul", hats[0], g.constant(term.values)), hats[1])
            part = g.add("ReduceSum", lines, g.constant([1], np.int64), keepdims=1)
        total = g.add("Add", total, part)
    g.add("Squeeze", total, g.constant([1], np.int64), name="cost")


def _features(g: _Graph, cost: LearnedCost, z: str) -> str:
    """phi (N, k), as `LearnedCost.features`."""
    if cost.linear:
        return z
    parts = []
    if cost.slopes.size:
        deep = g.add("Unsqueeze", z, g.constant([2], np.int64))
        u = g.add("Add", g.add("Mul", deep, g.constant(cost.slopes)), g.constant(cost.offsets))
        parts.append(g.add("Reshape", g.add("Sigmoid", u), g.constant([0, cost.slopes.size], np.int64)))
    if cost.weights:
        x = z
        for weight, bias in zip(cost.weights[:-1], cost.biases[:-1], strict=True):
            x = g.add("Relu", g.dense(x, weight, bias))
        x = g.dense(x, cost.weights[-1], cost.biases[-1])
        if cost.head == "beta":
            both = g.add("Add", g.add("Softplus", x), g.constant(BETA_FLOOR))
            b = g.add("Gather", both, g.constant([1], np.int64), axis=1)
            x = g.add("Div", b, g.add("ReduceSum", both, g.constant([1], np.int64), keepdims=1))
        elif cost.head == "leaky":
            x = g.add("LeakyRelu", x, alpha=LEAK)
        else:
            x = g.add("Sigmoid", x)
        parts.append(x)
    return parts[0] if len(parts) == 1 else g.add("Concat", *parts, axis=-1)


# ---------------------------------------------------------------------------------------------------------------------
# Runs


def export(run: Run, folder: str | os.PathLike[str]) -> dict[str, float]:
    """Write the models of a run as ONNX files. Returns {file: largest difference from the original}.

    RunFailed if one differs by more than TOLERANCE; nothing is written then.
    """
    policy = network_policy(run)
    obs = None
    if (run.path / "demos.npz").exists():
        observations = run.demonstrations().observations
        obs = policy.interface.encode(observations[:: max(1, len(observations) // 1000)])
    graphs: dict[str, tuple[ModelProto, float]] = {}
    graph = policy_graph(policy)
    graphs["policy.onnx"] = graph, policy_difference(graph, policy, obs)
    for name in ("cost", "map"):
        if (run.path / "model" / f"{name}.safetensors").exists():
            cost = load_cost(run, name)
            assert isinstance(cost, LearnedCost)
            graph = cost_graph(cost)
            graphs[f"{name}.onnx"] = graph, cost_difference(graph, cost, obs)
    differences = {name: largest for name, (_, largest) in graphs.items()}
    require_equal(differences)
    for name, (graph, _) in graphs.items():
        storage.atomic_write_bytes(Path(folder) / name, graph.SerializeToString(deterministic=True))
    return differences


def _samples(size: int, centre: NDArray[Any], scale: NDArray[Any], obs: NDArray[Any] | None) -> NDArray[Any]:
    """Inputs for a comparison: what was seen, and 500 from narrow to far beyond any clip."""
    rng = np.random.default_rng(0)
    spread = np.exp(rng.uniform(-2, 5, (500, 1)))
    samples = (centre + scale * spread * rng.standard_normal((500, size))).astype(np.float32)
    return samples if obs is None or obs.shape[-1] != size else np.concatenate([obs.astype(np.float32), samples])


def policy_difference(graph: ModelProto, policy: Policy, obs: NDArray[Any] | None = None) -> float:
    """Largest difference between graph and policy: of action and mean relative to 1 + |value|, or of the logits."""
    interface = policy.interface
    if interface.n_states:
        given = np.arange(interface.n_states)
    else:
        given = _samples(interface.obs_size, policy.obs_mean, 1.0 / policy.obs_scale, obs)
    outputs = run_graph(graph, {"obs": given})
    head = policy.head(interface.encode(given))
    if interface.n_actions:
        sure = np.sort(head, axis=-1)
        clear = sure[:, -1] - sure[:, -2] > TOLERANCE if interface.n_actions > 1 else np.ones(len(head), bool)
        if (outputs["action"] != head.argmax(-1))[clear].any():
            return math.inf
        return difference(outputs["logits"], head)
    return difference(outputs["action"], policy.act(given, np.random.default_rng(0), deterministic=True))


def cost_difference(graph: ModelProto, cost: LearnedCost, obs: NDArray[Any] | None = None) -> float:
    """Largest difference between graph and cost, relative to 1 + |value|."""
    inputs, rng = cost.inputs, np.random.default_rng(1)
    centre, scale = np.zeros(inputs.width), np.ones(inputs.width)
    centre[list(inputs.columns)], scale[list(inputs.columns)] = inputs.centre, inputs.scale
    given = {"obs": _samples(inputs.obs_size, centre[: inputs.obs_size], scale[: inputs.obs_size], obs)}
    if inputs.n_actions and inputs.act_size:
        given["act"] = rng.integers(inputs.n_actions, size=len(given["obs"]))
    elif inputs.act_size:
        given["act"] = _samples(inputs.act_size, centre[inputs.first_action :], scale[inputs.first_action :], None)
        given["act"] = np.resize(given["act"], (len(given["obs"]), inputs.act_size))
    return difference(run_graph(graph, given)["cost"], cost(given["obs"], given.get("act")))


def run_graph(graph: ModelProto | bytes, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs by name, computed by onnxruntime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    data = graph if isinstance(graph, bytes) else graph.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return {
        output.name: np.asarray(value)
        for output, value in zip(session.get_outputs(), session.run(None, inputs), strict=True)
    }
