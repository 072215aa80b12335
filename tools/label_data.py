"""Write licence and origin on the card of every data file that comes with the package.

    python tools/label_data.py           label the files that lack it; the arrays, and so their hashes, stay as they are

Run it after demonstrations or recordings were made anew (docs/development.md#make-a-release).
`tests/test_shipped_data.py` fails if one was forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from make_recordings import LICENCE, ORIGIN
from tacit import demos
from tacit.envs.traffic import compact
from tacit.run import storage

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tacit"


def origin_of(card: dict[str, Any]) -> str:
    """Where demonstrations come from, in a sentence."""
    env = card["env"].removeprefix("tacit/")
    if "expert" not in card:
        return f"Made for Tacit by its scripted expert in its own simulator ({env}). No data of other people went in."
    simulator = "its own traffic simulator, on recordings simulated with SUMO" if "Highway" in env else "MuJoCo"
    return f"Made for Tacit by an expert that it trained in {simulator} ({env}). No data of other people went in."


def main() -> None:
    for path in sorted((SOURCE / "demos" / "data").glob("*.npz")):
        data = demos.load(path)
        label = {"licence": LICENCE, "origin": origin_of(data.card)}
        if not label.items() <= data.card.items():
            demos.save(replace(data, card={**data.card, **label}), path)
            print(path.name)
    for path in sorted((SOURCE / "envs" / "traffic" / "data").glob("*.replay.safetensors")):
        arrays, card = storage.load_arrays(path)
        label = {"licence": LICENCE, "origin": origin_of(card)}
        if not label.items() <= card.items():
            storage.save_arrays(path, arrays, {**card, **label})
            print(path.name)
    sums = ""
    for path in compact.shipped():
        recording = compact.load(path)
        label = {"licence": LICENCE, "origin": ORIGIN}
        if not label.items() <= recording.about.items():
            compact.save(replace(recording, about={**recording.about, **label}), path)
            print(path.name)
        sums += f"{storage.sha256_of_file(path)}  {path.name}\n"
    storage.atomic_write_text(SOURCE / "envs" / "traffic" / "data" / "SHA256SUMS", sums)


if __name__ == "__main__":
    main()
