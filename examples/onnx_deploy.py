"""A learned policy and cost outside Tacit: ONNX graphs, run by onnxruntime with nothing but NumPy arrays.

On the command line: `tacit export RUN --onnx DIR`. Needs `pip install '.[onnx]'`. The training here is far too
short to learn anything; see own_environment.py for one that does.
"""

# needs: jax, onnx, onnxruntime
import numpy as np
import onnxruntime

from tacit import demos
from tacit.cost import load_cost
from tacit.envs.registry import make_vec
from tacit.interop import onnx
from tacit.launch import execute, start_run
from tacit.policy import Policy

# 1. A run. The pendulum's operators, so to speak, push at random but never hard.
env = make_vec("Pendulum-v1", 4)
shown = demos.collect(env, lambda obs, rng: rng.uniform(-1, 1, (len(obs), 1)).astype(np.float32), 8, seed=0)
demos.save(shown, "pendulum.npz")
short = {"total_steps": 2_000, "bootstrap_steps": 1_000, "forward_steps": 1_000, "rollout_steps": 1_000}
short |= {"n_envs": 4, "batch_size": 500, "eval_episodes": 4, "use_action": True, "at": "current"}
run, data = start_run("mce", "Pendulum-v1", demos="pendulum.npz", settings=short)
execute(run, data)

# 2. Export. Every graph is compared with the original before it is written.
for file, difference in onnx.export(run, "deploy").items():
    print(f"deploy/{file}: differs by at most {difference:.0e}")

# 3. Somewhere else, without Tacit: raw observations in, actions for the environment out.
obs = np.array([[1.0, 0.0, 0.5], [-1.0, 0.0, 8.0]], np.float32)
actor = onnxruntime.InferenceSession("deploy/policy.onnx")
action, mean, std = actor.run(["action", "mean", "std"], {"obs": obs})
judge = onnxruntime.InferenceSession("deploy/cost.onnx")
(cost,) = judge.run(["cost"], {"obs": obs, "act": action})
print("actions", action.ravel().round(3), "costs", cost.round(3))

# The same from the originals.
policy, learned = Policy.from_arrays(*run.load_model("policy")), load_cost(run.path)
assert np.allclose(action, policy.act(obs, np.random.default_rng(0), deterministic=True), atol=1e-5)
assert np.allclose(cost, learned(obs, action), atol=1e-4)
