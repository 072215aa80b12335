"""The stored comparison with Stable-Baselines3: it is of the present settings, and renewing it keeps SB3's rows."""

from pathlib import Path

import pytest
from benchmarks import sb3_quality

from tacit.run import storage

FILE = Path(__file__).parents[2] / "results" / "bench-sb3-quality.json"


def test_the_stored_comparison_follows_from_its_rows():
    content = storage.read_json(FILE)
    assert content["settings"] == sb3_quality.settings()
    again = storage.from_json(storage.to_json(sb3_quality.compare(content["runs"])))
    assert again == content["comparison"]


def test_renewing_keeps_the_rows_of_sb3():
    content = storage.read_json(FILE)
    for task in content["settings"]["tasks"].values():
        task["clip_gradients"] = "each"  # a setting of ours alone
    renewed = sb3_quality.renewed(content, {"command": "again"})
    assert {record["side"] for record in renewed["runs"]} == {"sb3"}
    assert len(renewed["runs"]) == sum(record["side"] == "sb3" for record in content["runs"])
    assert renewed["settings"] == sb3_quality.settings()
    assert renewed["provenance"]["earlier"] == content["provenance"]


def test_rows_of_sb3_with_other_settings_are_not_kept():
    content = storage.read_json(FILE)
    content["settings"]["tasks"]["HalfCheetah-v5"]["epochs"] = 10
    with pytest.raises(ValueError, match=r"HalfCheetah-v5 .* other values of epochs"):
        sb3_quality.renewed(content, {})
