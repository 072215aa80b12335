"""Export policies and costs as torch modules, with scaling and clipping built in.

    module = policy_module(policy)          module(obs) -> (mean, std) or logits; module.act(obs) -> the best action
    module = cost_module(cost)              module(rows) -> cost; differentiable, rows are [observation | action]
    module.state_dict()                     every number; to be loaded into a module of the same sizes

Files are safetensors (`safetensors.torch.load_file` gives the state dict): a torch pickle could run code.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.cost import BETA_FLOOR, LEAK, LearnedCost, load_cost
from tacit.cost.terms import between
from tacit.interop import difference, network_policy, require_equal, require_plain
from tacit.policy import Policy
from tacit.run import storage

if TYPE_CHECKING:
    from tacit.run import Run


def _tensor(array: Any) -> torch.Tensor:
    return torch.tensor(np.asarray(array, dtype=np.float32))


def _dense(weights: tuple[NDArray[Any], ...], biases: tuple[NDArray[Any], ...], between: type[nn.Module]) -> Any:
    """nn.Sequential of linear layers with `between` between them."""
    layers: list[nn.Module] = []
    for weight, bias in zip(weights, biases, strict=True):
        if layers:
            layers.append(between())
        layer = nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(_tensor(weight.T))
            layer.bias.copy_(_tensor(bias))
        layers.append(layer)
    return nn.Sequential(*layers)


class Normalise(nn.Module):
    """(obs - mean) * scale within +-clip: what our networks see."""

    def __init__(self, mean: NDArray[Any], scale: NDArray[Any], clip: float) -> None:
        super().__init__()
        self.register_buffer("mean", _tensor(mean))
        self.register_buffer("scale", _tensor(scale))
        self.register_buffer("clip", _tensor(clip))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.clamp((obs - self.mean) * self.scale, -self.clip, self.clip)


class PolicyModule(nn.Module):
    """Encoded observations (N, obs_size) float32 -> (mean (N, A), std (A,)) in the environment's units, or logits."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        interface = policy.interface
        self.discrete = bool(interface.n_actions)
        self.normalise = Normalise(policy.obs_mean, policy.obs_scale, policy.obs_clip)
        self.net = _dense(policy.weights, policy.biases, nn.Tanh)
        if policy.log_std is not None:
            low, high, centre, half = interface.box
            self.log_std = nn.Parameter(_tensor(policy.log_std))
            for name, array in (("low", low), ("high", high), ("centre", centre), ("half_width", half)):
                self.register_buffer(name, _tensor(array))

    def forward(self, obs: torch.Tensor) -> Any:
        head = self.net(self.normalise(obs))
        return (
            head if self.discrete else (self.centre + self.half_width * head, self.half_width * torch.exp(self.log_std))
        )

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        """The most likely action, as the environment takes it."""
        if self.discrete:
            return self(obs).argmax(-1)
        return torch.minimum(torch.maximum(self(obs)[0], self.low), self.high)


class CostModule(nn.Module):
    """Rows [observation | derived | action] (N, width), as `cost.inputs.rows` makes them, -> cost (N,)."""

    def __init__(self, cost: LearnedCost) -> None:
        super().__init__()
        inputs = cost.inputs
        self.squash, self.clip, self.linear, self.head = inputs.squash, inputs.clip, cost.linear, cost.head
        self.register_buffer("columns", torch.tensor(inputs.columns))
        for name in ("centre", "scale"):
            self.register_buffer(name, _tensor(getattr(inputs, name)))
        for name in ("lam", "slopes", "offsets"):
            setattr(self, name, nn.Parameter(_tensor(getattr(cost, name))))
        self.net = _dense(cost.weights, cost.biases, nn.ReLU)
        self.is_sum = cost.is_sum
        self.term_columns = [term.columns for term in cost.terms]
        for i, term in enumerate(cost.terms):
            self.register_buffer(f"values{i}", _tensor(term.values))
            for axis, knots in enumerate(term.knots):
                self.register_buffer(f"knots{i}_{axis}", _tensor(np.stack(between(knots))))

    def _terms(self, rows: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(rows.shape[:-1], dtype=rows.dtype)
        for i, columns in enumerate(self.term_columns):
            cost = getattr(self, f"values{i}")
            for axis in reversed(range(len(columns))):
                low, knots, high = getattr(self, f"knots{i}_{axis}")
                x = torch.minimum(torch.maximum(rows[..., columns[axis], None], knots[0]), knots[-1])
                hats = torch.clamp(torch.minimum((x - low) / (knots - low), (high - x) / (high - knots)), 0.0, 1.0)
                # The last axis of the table first; then the rows have a line of it each.
                cost = hats @ cost.T if axis == 1 else (hats * cost).sum(-1)
            total = total + cost
        return total

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.is_sum:
            return self._terms(rows)
        z = (rows[..., self.columns] - self.centre) / self.scale
        if self.squash:
            z = torch.asinh(z)
        if math.isfinite(self.clip):
            z = torch.clamp(z, -self.clip, self.clip)
        if self.linear:
            return z @ self.lam
        parts = []
        if self.slopes.numel():
            parts.append(torch.sigmoid(z[..., None] * self.slopes + self.offsets).flatten(-2))
        if len(self.net):
            out = self.net(z)
            if self.head == "beta":
                both = nn.functional.softplus(out) + BETA_FLOOR
                out = both[..., 1:] / both.sum(-1, keepdim=True)
            elif self.head == "leaky":
                out = nn.functional.leaky_relu(out, LEAK)
            else:
                out = torch.sigmoid(out)
            parts.append(out)
        return torch.cat(parts, -1) @ self.lam


def policy_module(policy: Policy) -> PolicyModule:
    require_plain(policy)
    return PolicyModule(policy)


def cost_module(cost: LearnedCost) -> CostModule:
    return CostModule(cost)


def export(run: Run, folder: str | os.PathLike[str]) -> dict[str, float]:
    """Write the models of a run as state dicts. Returns {file: largest difference from the original}.

    RunFailed if one differs by more than TOLERANCE; nothing is written then.
    """
    from safetensors.torch import save

    policy = network_policy(run)
    module = policy_module(policy)
    obs = _spread(policy.obs_mean, policy.obs_scale) if not policy.interface.n_states else np.eye(len(policy.obs_mean))
    head = policy.head(obs.astype(np.float32))
    expected = head if policy.interface.n_actions else policy.interface.box[2] + policy.interface.box[3] * head
    with torch.no_grad():
        output = module(_tensor(obs))
    got = output if policy.interface.n_actions else output[0]
    modules: dict[str, tuple[nn.Module, float]] = {}
    modules["policy.safetensors"] = module, difference(got.numpy(), expected)
    for name in ("cost", "map"):
        if (run.path / "model" / f"{name}.safetensors").exists():
            cost = load_cost(run, name)
            assert isinstance(cost, LearnedCost)
            rows = np.zeros((500, cost.inputs.width), np.float32)
            rows[:, list(cost.inputs.columns)] = _spread(cost.inputs.centre, 1.0 / cost.inputs.scale)
            network = cost_module(cost)
            with torch.no_grad():
                modules[f"{name}.safetensors"] = network, difference(network(_tensor(rows)).numpy(), cost.of_rows(rows))
    differences = {name: largest for name, (_, largest) in modules.items()}
    require_equal(differences)
    for name, (module_, _) in modules.items():
        state = {key: value.contiguous() for key, value in module_.state_dict().items()}
        storage.atomic_write_bytes(Path(folder) / name, save(state))
    return differences


def _spread(centre: NDArray[Any], inverse: NDArray[Any]) -> NDArray[Any]:
    """(500, d) numbers from near the centre to far beyond any clip."""
    rng = np.random.default_rng(0)
    far = np.exp(rng.uniform(-2, 5, (500, 1)))
    return (centre + far * rng.standard_normal((500, len(centre))) / inverse).astype(np.float32)
