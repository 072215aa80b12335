"""The playground in a real browser: drawn on, walked on, read, and without a complaint in the console."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from report_helpers import browser as needs_browser
from tacit.playground.scene import parse
from tacit.playground.server import Server

pytestmark = needs_browser

IDLE = "document.querySelector('#inferred-card').ariaBusy === 'false'"
SOLVED = f"{IDLE} && /^solved|rule|tell/.test(document.querySelector('#badge').textContent)"
LOAD = (
    "(() => { const data = new DataTransfer(); data.items.add(new File([%s], 'map.json'));"
    " const input = document.querySelector('#file'); input.files = data.files; return input.onchange(); })()"
)
COSTS = (
    "[...document.querySelectorAll('#inferred .at')].map((e) => Number(/cost ([0-9.]+)/.exec(e.ariaLabel)?.[1] ?? 0))"
)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def page(_browser: Browser, server: Server) -> Iterator[Browser]:
    """The playground, freshly opened. What the page complained about is looked at in the end."""
    _browser.complaints.clear()
    _browser.resize(1280, 900)
    _browser.prefer("light")
    _browser.open(server.url)
    _browser.wait(IDLE)
    yield _browser
    complaints = list(_browser.complaints)
    _browser.send("Page.navigate", url="about:blank")  # before its server goes
    assert complaints == []


def cell(board: str, row: int, column: int) -> str:
    return f"#{board} .row:nth-child({row + 1}) .at:nth-child({column + 1})"


def scene(page: Browser) -> dict[str, Any]:
    """As the page remembers it."""
    return json.loads(page.ask("localStorage.getItem('tacit-playground-scene')"))


def drag(page: Browser, *cells: tuple[int, int]) -> None:
    page.drag([page.middle(cell("world", *at)) for at in cells])


def tool(page: Browser, number: int) -> None:
    page.click(f"#tools button:nth-child({number})")


def test_draw_demonstrate_and_see_the_cost(page: Browser) -> None:
    assert not page.ask("document.querySelector('#empty').hidden"), "an empty page says what to do"
    assert scene(page)["rows"][6] == "..S.X.G.."
    # A wall by mouse.
    tool(page, 2)
    drag(page, (0, 0), (0, 3))
    assert scene(page)["rows"][0] == "####....."
    # Two demonstrations by mouse and one by keys, round the hidden cells.
    tool(page, 1)
    way = [(6, 2), (5, 2), (4, 2), (3, 3), (2, 4), (3, 5), (4, 6), (5, 6), (6, 6)]
    drag(page, *way)
    page.wait("JSON.parse(localStorage.getItem('tacit-playground-scene')).demonstrations.length === 1")
    drag(page, *way)
    page.ask(f"document.querySelector('{cell('world', 6, 2)}').focus()")
    for key in 5 * ["ArrowUp"] + 4 * ["ArrowRight"] + 5 * ["ArrowDown"]:
        page.press(key)
    shown = scene(page)["demonstrations"]
    assert len(shown) == 3
    assert shown[0]["cells"] == [list(at) for at in way]
    assert shown[2]["actions"] == 5 * [3] + 4 * [0] + 5 * [2]
    page.wait(SOLVED)
    page.wait("/From 3 walks/.test(document.querySelector('#verdict').textContent)")
    assert page.ask("document.querySelector('#empty').hidden")
    labels = page.ask("[...document.querySelectorAll('#inferred .at')].map((e) => e.ariaLabel)")
    assert any(
        "forbidden" in labels[9 * 6 + column] and "no sign" not in labels[9 * 6 + column] for column in (3, 4, 5)
    )
    assert all("no sign" in labels[9 * row + column] for row, column in way[1:-1]), "what was walked is allowed"
    facts = page.ask("document.querySelector('#verdict').innerText")
    assert "How much can these tell?" in facts
    assert "the shortest way has 4" in facts
    assert page.ask("document.querySelectorAll('#inferred .unsure').length") > 10


def test_five_walks_find_the_wall_and_the_slider_goes_back(page: Browser) -> None:
    """Dragged by hand, one of them with a detour: the hidden cells, and nothing else."""
    up, down = [(6, 2), (5, 2), (4, 2), (3, 3), (2, 4)], [(3, 5), (4, 6), (5, 6), (6, 6)]
    near = [(6, 2), (5, 3), (4, 3), (3, 3), (2, 4), (3, 5), (4, 5), (5, 5), (6, 6)]
    detour = [(6, 2), (5, 2), (5, 3), (4, 3), (3, 3), (2, 3), (2, 4), (3, 5), (4, 5), (5, 5), (6, 6)]
    for way in (up + down, near, near, detour, up + down):
        drag(page, *way)
    assert [walk["cells"] for walk in scene(page)["demonstrations"]][3] == [list(at) for at in detour]
    page.wait(f"{IDLE} && document.querySelector('#badge').textContent === 'smallest rule found'")
    sure = "[...document.querySelectorAll('#inferred .at')].map((e) => /: forbidden/.test(e.ariaLabel))"
    found = [divmod(i, 9) for i, yes in enumerate(page.ask(sure)) if yes]
    assert found == [(row, 4) for row in range(3, 9)]
    # With one walk there is no telling; all of them are still there.
    page.ask(
        "(() => { const e = document.querySelector('#used'); e.value = 1; e.dispatchEvent(new Event('input')); })()"
    )
    page.wait(f"{IDLE} && /From 1 walk:/.test(document.querySelector('#verdict').textContent)")
    assert page.ask("document.querySelector('#badge').textContent") != "smallest rule found"
    assert len(scene(page)["demonstrations"]) == 5
    assert page.ask("document.querySelectorAll('#world polyline.unused').length") == 4


def test_a_drag_past_a_corner_does_not_enter_the_hidden_cell(page: Browser) -> None:
    """The pointer goes straight from beside the wall's end to the cell above it, touching a corner of the wall."""
    before, end, after = (page.middle(cell("world", *at)) for at in ((6, 2), (3, 3), (2, 4)))
    side = page.ask(f"document.querySelector('{cell('world', 3, 4)}').getBoundingClientRect().width")
    cut = (end[0] + 0.6 * side, end[1] - 0.4 * side)  # a tenth of a cell inside of the hidden one
    goal = [page.middle(cell("world", *at)) for at in ((3, 5), (6, 6))]
    page.drag([before, end, cut, after, *goal])
    (walk,) = scene(page)["demonstrations"]
    assert [3, 4] not in walk["cells"]
    assert [2, 4] in walk["cells"]


def test_arrow_keys_walk_before_anything_is_chosen(page: Browser) -> None:
    page.ask("document.activeElement.blur()")
    page.press("ArrowUp")
    page.press("ArrowRight")
    assert page.ask("document.querySelector('#world .here').ariaLabel").startswith("row 5, column 3")


def test_undo_takes_back_a_step_of_a_walk(page: Browser) -> None:
    page.ask(f"document.querySelector('{cell('world', 6, 2)}').focus()")
    page.press("ArrowUp")
    page.press("ArrowUp")
    page.press("z", ctrl=True)
    assert page.ask("document.querySelector('#world .here').ariaLabel").startswith("row 5, column 2")


def test_solved_exactly_is_no_seal_of_truth(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    assert page.ask("document.querySelector('#badge').textContent") == "solved exactly"
    assert not page.ask("document.querySelector('#badge').classList.contains('good')")
    words = page.ask("document.querySelector('#verdict').textContent")
    assert "KKT residual" in words
    assert "How much can these tell?" in words


def test_ask_the_expert_and_compare(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    assert page.ask("document.querySelectorAll('#world polyline.theirs').length") == 50
    assert page.ask("document.querySelectorAll('#inferred .true-cell').length") == 0
    assert page.ask("document.querySelector('#truth').hidden")
    page.click("#compare")
    page.wait("!document.querySelector('#truth').hidden")
    assert page.ask("document.querySelectorAll('#inferred .true-cell').length") == 6
    assert "nothing of this was used for learning" in page.ask("document.querySelector('#truth').textContent")
    # Moving the hidden cells moves the expert, and the cost with it, while the mouse is still down.
    before = page.ask(COSTS)
    tool(page, 4)
    drag(page, (3, 4), (8, 4))
    assert "X" not in "".join(scene(page)["rows"])
    page.wait(f"JSON.stringify({COSTS}) !== {json.dumps(json.dumps(before, separators=(',', ':')))}")
    for number, name in enumerate(("Forbidden", "Learned agent", "Unconstrained", "Demos"), 1):
        page.click(f"#views button:nth-child({number})")
        assert page.ask("document.querySelector('#views [aria-checked=true]').textContent") == name


def test_no_solution_is_explained_and_repaired(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    page.ask("(() => { const e = document.querySelector('#objective'); e.value = 'moments'; e.onchange(); })()")
    page.wait("document.querySelector('#badge').textContent.startsWith('no solution')")
    assert page.ask("document.querySelectorAll('#inferred .blamed').length") > 0
    page.click("#verdict button.primary")
    page.wait("document.querySelector('#badge').textContent === 'solved exactly'")


def test_a_closed_wall_is_noticed_and_undone(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    tool(page, 2)
    drag(page, (0, 3), (8, 3))
    page.wait("!document.querySelector('#problem').hidden")
    assert "cannot be reached" in page.ask("document.querySelector('#problem').textContent")
    page.press("z", ctrl=True)
    page.wait(SOLVED)
    assert page.ask("document.querySelector('#problem').hidden")
    assert "#" not in "".join(scene(page)["rows"])


def test_demonstrations_that_no_longer_fit_are_removed_and_can_be_had_back(page: Browser) -> None:
    drag(page, (6, 2), (5, 3), (2, 4), (5, 5), (6, 6))
    assert len(scene(page)["demonstrations"]) == 1
    tool(page, 2)
    at = scene(page)["demonstrations"][0]["cells"][1]
    page.click(cell("world", *at))
    assert scene(page)["demonstrations"] == []
    page.click(".toast button")
    assert len(scene(page)["demonstrations"]) == 1


def test_keyboard_alone(page: Browser) -> None:
    page.ask(f"document.querySelector('{cell('world', 6, 2)}').focus()")
    page.press("3")
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.press(key)
    assert scene(page)["rows"][7] == "...XX...."
    assert page.ask("document.activeElement.ariaLabel") == "row 7, column 3: hidden constraint"
    page.press("e")
    page.wait(SOLVED)
    assert scene(page)["expert"]["n"] == 10
    page.press("1")
    page.press("ArrowLeft")
    assert not page.ask("document.querySelector('#discard').hidden")
    page.press("Escape")
    assert page.ask("document.querySelector('#discard').hidden")
    page.press("t")
    page.wait("!document.querySelector('#truth').hidden")
    names = page.ask(
        "[...document.querySelectorAll('button, input, select, [role=gridcell]')].filter((e) => !e.hidden"
        " && !(e.ariaLabel || e.textContent.trim() || e.labels?.length || e.title)).map((e) => e.outerHTML)"
    )
    assert names == [], "controls without a name"


def test_save_load_and_come_back(page: Browser, server: Server) -> None:
    drag(page, (6, 2), (5, 2), (2, 4), (5, 6), (6, 6))
    saved = page.ask(
        "(async () => { let blob; const make = URL.createObjectURL;"
        " URL.createObjectURL = (b) => { blob = b; return make(b); };"
        " const click = HTMLAnchorElement.prototype.click; HTMLAnchorElement.prototype.click = () => {};"
        " document.querySelector('#save').click(); URL.createObjectURL = make;"
        " HTMLAnchorElement.prototype.click = click; return blob.text(); })()"
    )
    parsed = parse(json.loads(saved))
    assert len(parsed.demonstrations) == 1
    changed = {**parsed.to_json(), "rows": ["S.X.G", "....."], "demonstrations": [], "name": "mine"}
    page.ask(LOAD % json.dumps(json.dumps(changed)))
    page.wait("document.querySelectorAll('#world .at').length === 10")
    for wrong, words in (("not JSON", "not a JSON file"), ('{"layout": 1}', "unknown entry"), ("[]", "JSON object")):
        page.ask(LOAD % json.dumps(wrong))
        page.wait(f"document.querySelector('.toast').textContent.includes({json.dumps(words)})")
    assert scene(page)["name"] == "mine"
    # The server said 422 to two of them, which browsers note.
    refused, page.complaints[:] = page.complaints[:], []
    assert len(refused) == 2
    assert all("422" in complaint for complaint in refused)
    page.open(server.url)
    page.wait("document.querySelectorAll('#world .at').length === 10")


def test_other_sizes(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    for side, value, cells in (("height", 13, 117), ("width", 2, 26), ("height", 99, 40), ("width", 11, 220)):
        page.ask(f"(() => {{ const e = document.querySelector('#{side}'); e.value = {value}; e.onchange(); }})()")
        assert page.ask("document.querySelectorAll('#world .at').length") == cells
        assert page.ask("document.querySelectorAll('#inferred .at').length") == cells
    page.wait(SOLVED)
    assert parse(scene(page)).truth.shape == (20, 11)


def test_slipping_while_demonstrating(page: Browser) -> None:
    """What chance makes of a walk is a demonstration that the server takes."""
    small = json.dumps(json.dumps({"rows": ["S..G", "....", "...."], "moves": 4, "slip": 0.5}))
    page.ask(LOAD % small)
    page.wait("document.querySelectorAll('#world .at').length === 12")
    page.click("#slippery")
    page.ask(f"document.querySelector('{cell('world', 0, 0)}').focus()")
    for _ in range(100):
        for key in ("ArrowRight", "ArrowUp"):
            page.press(key)
        if scene(page)["demonstrations"]:
            break
    (shown,) = scene(page)["demonstrations"][:1]
    assert shown["cells"][-1] == [0, 3]
    assert all(abs(a[0] - b[0]) + abs(a[1] - b[1]) <= 1 for a, b in itertools.pairwise(shown["cells"]))
    page.wait(SOLVED)


def test_a_server_that_is_gone(page: Browser, server: Server) -> None:
    server.shutdown()
    server.server_close()
    page.click("#ask")
    page.wait("!document.querySelector('#problem').hidden")
    assert "still running" in page.ask("document.querySelector('#problem').textContent")
    assert page.complaints
    assert all("ERR_" in complaint for complaint in page.complaints)
    page.complaints.clear()


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (900, 1000), (400, 844), (320, 640)])
def test_every_width(page: Browser, width: int, height: int, tmp_path: Path) -> None:
    page.resize(width, height, phone=width < 500)
    page.click("#ask")
    page.wait(SOLVED)
    assert page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), "scrolls sideways"
    sizes = page.ask("[...document.querySelectorAll('.board')].map((e) => e.getBoundingClientRect().width)")
    assert all(min(250, 0.7 * width) < size <= width for size in sizes)
    small = page.ask(
        "Math.min(...[...document.querySelectorAll('p, label, button, dt, dd, legend, output')]"
        ".map((e) => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert small >= 11
    page.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 5000


def test_light_and_dark(page: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.ask(background) == "rgb(246, 247, 248)"
    page.prefer("dark")
    assert page.ask(background) == "rgb(16, 19, 22)"
    page.click("#theme")  # light, whatever the system says
    assert page.ask(background) == "rgb(246, 247, 248)"
    page.click("#theme")
    page.prefer("light")
    assert page.ask(background) == "rgb(16, 19, 22)"
    page.click("#theme")
    assert page.ask(background) == "rgb(246, 247, 248)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_and_has_a_name(page: Browser, scheme: str) -> None:
    page.prefer(scheme)
    page.click("#ask")
    page.wait(SOLVED)
    page.click("#compare")
    page.wait(f"{IDLE} && !document.querySelector('#truth').hidden")
    page.ask("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.faint(4.5) == []
    assert page.nameless() == []


def test_it_prints_both_boards_on_one_sheet(page: Browser) -> None:
    page.click("#ask")
    page.wait(SOLVED)
    page.send("Emulation.setEmulatedMedia", media="print")
    hidden = (
        "['.settings', '.bar', '#tools'].every((e) => getComputedStyle(document.querySelector(e)).display === 'none')"
    )
    assert page.ask(hidden)
    # Walls, crosses and costs are backgrounds, which browsers leave out of prints unless told otherwise.
    assert page.ask("getComputedStyle(document.querySelector('#inferred .at')).printColorAdjust") == "exact"
    assert len(re.findall(rb"/Type\s*/Page\b", page.print())) == 1
    page.send("Emulation.setEmulatedMedia", media="")
