"""Gymnasium environments, registered as tacit/NAME-v0 when this package is imported.

families.py       what is known of environments before they are made; the door for other packages
capabilities.py   what an environment can do beyond Gymnasium's interface, and how it declares that
registry.py       making environments by id, with flat and named observations
options.py        options of environments: checked and completed
wrappers.py       a learned cost around an environment
gridworld.py, robots.py, traffic/    the families of this package
nav.py, slow_zone.py, reactor.py, crowd.py    tasks in NumPy, made with tasks.py: regions and relations
"""

from tacit.envs.families import DemonstrationFormat, EnvInfo, Family, describe_envs, register_envs

__all__ = ["DemonstrationFormat", "EnvInfo", "Family", "describe_envs", "register_envs"]

register_envs()
