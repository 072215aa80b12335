"""Write src/tacit/presets/settings.py: the settings of every algorithm as types that an editor can read.

    python tools/settings.py            write it anew, after a `Config` has changed
    python tools/settings.py --check    exit status 1 if it is out of date

The file is made from the `Config` classes of the algorithms. Reading it needs none of the packages that they need, so
`tacit learn mce --help` works without JAX.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tacit.algorithms import ALGORITHMS, Algorithm

FILE = Path(__file__).parents[1] / "src/tacit/presets/settings.py"
HEAD = '''"""The settings of every algorithm, as types: what `tacit.learn(env, method="mce", **settings)` takes.

Written by tools/settings.py from the algorithms' `Config` classes; do not edit. The second entry of an annotation is
the default of `Config`. What a run uses unless you say otherwise is that of its preset for its environment:
`tacit learn mce ENV --help` shows it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from tacit.run.naming import Unused

'''
UNUSED_DOC = '"""By the name of the algorithm: settings that another setting makes useless (`naming.Unused`)."""'


def main() -> int:
    text = formatted(source())
    if "--check" in sys.argv[1:]:
        return int(FILE.read_text() != text)
    FILE.write_text(text)
    return 0


def source() -> str:
    """The module, before formatting."""
    classes: dict[type, str] = {}
    for algorithm in ALGORITHMS.values():
        for config_class in reversed(algorithm.load().Config.__mro__[:-1]):
            classes.setdefault(config_class, name_of(config_class))
    parts = [class_source(config_class, classes) for config_class in classes]
    table = ", ".join(f'"{name}": {classes[entry.load().Config]}' for name, entry in ALGORITHMS.items())
    by_name = f'SETTINGS: dict[str, type] = {{{table}}}\n"""By the name of the algorithm."""'
    unused = {name: entry.load().Config.UNUSED for name, entry in ALGORITHMS.items() if has_unused(entry)}
    refused = f"UNUSED: dict[str, Unused] = {unused!r}\n" + UNUSED_DOC
    return "\n\n".join([HEAD, *parts, by_name, refused])


def has_unused(algorithm: Algorithm) -> bool:
    return hasattr(algorithm.load().Config, "UNUSED")


def name_of(config_class: type) -> str:
    """tacit.inverse.me_icrl.Config is MeIcrl, tacit.inverse.samples.Settings is SamplesSettings."""
    module = "".join(word.capitalize() for word in config_class.__module__.rpartition(".")[2].split("_"))
    own = config_class.__name__.removesuffix("Config")
    return {"Mce": "MCE", "Ppo": "PPO", "Bc": "BC", "Bc2l": "BC2L", "Rcpo": "RCPO", "ExactRun": "MCEExact"}.get(
        module, module
    ) + own


def class_source(config_class: type, classes: dict[type, str]) -> str:
    bases = [classes[base] for base in config_class.__bases__ if base in classes] or ["TypedDict"]
    lines = [f"class {classes[config_class]}({', '.join(bases)}, total=False):"]
    lines.append(f'    """{(config_class.__doc__ or "").strip()}"""\n')
    for name, (annotation, doc) in documented(config_class).items():
        default = config_class.__dataclass_fields__[name].default  # type: ignore[attr-defined]
        lines.append(f"    {name}: Annotated[{annotation}, {default!r}]")
        lines.append(f'    """{doc}"""')
    return "\n".join(lines)


def documented(config_class: Any) -> dict[str, tuple[str, str]]:
    """{field: (its annotation, its docstring)} of the fields that the class itself declares."""
    body = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body[0].body  # type: ignore[attr-defined]
    fields = {}
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            doc = "\n    ".join(line.strip() for line in text.splitlines())
            fields[ast.unparse(statement.target)] = (ast.unparse(statement.annotation), doc)
    return fields


def formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "-q", "--stdin-filename", str(FILE), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
