"""Which inputs a cost has in an environment with a set of objects: distances to the nearest one (`tacit.cost.objects`).

The slots are those that the setting `objects` describes, or the environment declares (`capabilities(env).objects`), or
that repeated names show. The entries of the slots are no inputs then, so the cost does not depend on their order.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from tacit.cost import Inputs
from tacit.cost.objects import Slots, recognised
from tacit.envs.capabilities import capabilities
from tacit.forward.collect import names_of
from tacit.inverse import samples
from tacit.policy import Interface

if TYPE_CHECKING:
    from tacit.demos import Demonstrations
    from tacit.inverse.mce import Config

Array = NDArray[Any]


def inputs_of(env: VectorEnv, interface: Interface, config: Config, demos: Demonstrations | None) -> Inputs:
    """The inputs of the cost before scaling. UserError for a name that the environment does not have.

    Without demonstrations, nothing is read from repeated names, and the farthest distance is not known.
    """
    names = names_of(env, interface)
    observations = None if demos is None or interface.n_states else interface.encode(demos.observations)
    slots = slots_of(env, config, names, observations)
    if slots is None:
        return samples.unscaled_inputs(env, interface, config)
    derived = slots.nearest(names, observations)
    if config.inputs and not {one.name for one in derived} & set(config.inputs):
        return samples.unscaled_inputs(env, interface, config)
    return samples.unscaled_inputs(env, interface, config, derived=derived, instead_of=slots.entries(names))


def slots_of(env: VectorEnv, config: Config, names: tuple[str, ...], observations: Array | None) -> Slots | None:
    """The slots that the cost is to read; None if it reads the entries of an observation as they are."""
    if config.objects not in ("auto", "raw"):
        return Slots.of_text(config.objects)
    if config.objects == "raw" or config.features != "terms":
        return None
    declared = capabilities(env).objects
    if declared is not None or observations is None or config.inputs:
        return declared
    shown = recognised(names, observations)
    if shown is not None:
        flags = [f"kind={kind}" for kind in shown.kinds] + [f"present={shown.present}"] * bool(shown.present)
        flags += [f"origin={name}" for name in shown.origin]
        text = " ".join([*shown.position, *flags])
        warnings.warn(
            f"the names show {len(shown.numbers(names))} objects, so the cost reads the distance to the nearest one "
            f"instead of their entries (--objects '{text}'). If they are no objects: --objects raw",
            stacklevel=1,
        )
    return shown
