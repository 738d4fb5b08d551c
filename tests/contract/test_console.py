"""Tests of the console over HTTP, and in headless Chromium as people see it."""

import http.server
import json
import re
import socket
import threading

import pytest

from support.browser import Browser, pixels
from support.server import wait_until

SECRET = "secret:4111-1111"  # no key may appear in the console


def ask(server, path, host="127.0.0.1"):
    """Returns head and body of the reply to a request with this Host."""
    with socket.create_connection(("127.0.0.1", server.metrics_port), timeout=10) as link:
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: link.recv(1 << 16), b""))
    head, body = answer.split(b"\r\n\r\n", 1)
    return head.decode(), body.decode()


def numbers(server, database=0):
    head, body = ask(server, f"/console.json?db={database}")
    assert head.startswith("HTTP/1.1 200"), head
    return json.loads(body)


def fill(server, keys=3000):
    client = server.client()
    with client.pipeline(transaction=False) as pipe:
        for i in range(keys):
            pipe.set(f"{SECRET}:{i:06}", "v" * 200)
        pipe.execute()
    client.execute_command("TREE.FLUSH")
    client.execute_command("TREE.COMPACT")
    for i in range(0, keys, 100):
        client.delete(f"{SECRET}:{i:06}")
    client.execute_command("TREE.FLUSH")
    return client


def fill_two_levels(server, keys=3000):
    """Makes files on level 1, and a file with 30 tombstones on level 0. Requires that level 0 is merged down from two runs on."""
    client = server.client()
    for part in range(2):
        with client.pipeline(transaction=False) as pipe:
            for i in range(part, keys, 2):
                pipe.set(f"{SECRET}:{i:06}", "v" * 200)
            pipe.execute()
        client.execute_command("TREE.FLUSH")
    wait_until(lambda: [run["level"] for run in numbers(server)["tree"]["runs"]] == [1], what="both runs are on level 1")
    for i in range(0, keys, keys // 30):
        client.delete(f"{SECRET}:{i:06}")
    client.execute_command("TREE.FLUSH")


def test_console_page_has_its_security_headers(server):
    head, body = ask(server, "/")
    assert head.startswith("HTTP/1.1 200")
    assert body.startswith("<!doctype html>") and body.rstrip().endswith("</html>")
    for line in ("Content-Security-Policy: default-src 'none'; ", "X-Content-Type-Options: nosniff", "Cache-Control: no-store",
                 "Content-Type: text/html; charset=utf-8"):  # fmt: skip
        assert line in head, head
    assert "unsafe" not in head


def test_console_page_refers_to_no_other_host(server):
    """This must hold even where the Content-Security-Policy would block a request."""
    page = ask(server, "/")[1]
    # This URL is the name of SVG's namespace, which no browser requests.
    assert set(re.findall(r"https?://[^\s'\"<>]+", page)) == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"""(?i)(?:src|href)\s*=\s*["']?//|["'`]//\w|url\((?!#)|@import|\bimport\(|wss?://""", page) == []
    links = re.findall(r'\b(?:src|href)="([^"]*)"', page)
    assert {link.split(":")[0] for link in links} == {"data", "#tree", "/metrics", "/healthz", "/ready"}


def test_console_json_has_numbers_and_positions_of_files_but_no_keys(server):
    fill(server)
    head, body = ask(server, "/console.json")
    assert "application/json" in head
    assert "secret" not in body and "4111" not in body
    seen = json.loads(body)
    assert seen["not_ready"] == "" and seen["tree"]["db"] == 0
    files = [cell for run in seen["tree"]["runs"] for cell in run["cells"]]
    assert sum(cell.get("t", 0) for cell in files) == 30
    assert all(0 <= cell["x0"] < cell["x1"] <= 1 for cell in files)
    (entry,) = [entry for entry in seen["databases"] if entry["db"] == 0]
    oldest = min(cell["o"] for cell in files if "o" in cell)
    assert entry["oldest_birth"] == oldest and entry["oldest_deadline"] == oldest + entry["deadline_ms"] > oldest
    assert numbers(server, 9)["tree"]["runs"] == []


def test_console_json_lists_open_purge_tickets(fresh):
    fresh.start()
    client = fill(fresh)
    ticket = client.execute_command("DELRANGE", SECRET, f"{SECRET}:001000").decode()
    seen = numbers(fresh)
    assert seen["open_tickets"] >= 1 and ticket in {entry["id"] for entry in seen["tickets"]}
    assert all(not entry["done"] for entry in seen["tickets"])


@pytest.mark.parametrize("database", ["16", "-1", "x", "99999999999", ""])
def test_console_json_of_an_unknown_database_gets_400(server, database):
    head, body = ask(server, f"/console.json?db={database}")
    assert head.startswith("HTTP/1.1 400") and "error" in json.loads(body)


def test_console_request_with_a_foreign_host_header_gets_403_but_metrics_work(server):
    for path in ("/", "/console.json"):
        head, body = ask(server, path, host="evil.example:9736")
        assert head.startswith("HTTP/1.1 403") and "loopback" in body
    assert ask(server, "/metrics", host="evil.example")[0].startswith("HTTP/1.1 200")


def test_console_requests_other_than_get_are_refused_with_405(server):
    for method in ("POST", "PUT", "DELETE"):
        with socket.create_connection(("127.0.0.1", server.metrics_port), timeout=10) as link:
            link.sendall(f"{method} /console.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            assert b" 405 " in link.recv(100)


def test_console_that_is_switched_off_gives_404_and_metrics_are_still_served(fresh):
    fresh.set("metrics.console=false").start()
    assert ask(fresh, "/")[0].startswith("HTTP/1.1 404")
    assert ask(fresh, "/console.json")[0].startswith("HTTP/1.1 404")
    assert ask(fresh, "/metrics")[0].startswith("HTTP/1.1 200")


# --- in a browser


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def open_console(browser, server, **how):
    page = browser.open(f"http://127.0.0.1:{server.metrics_port}/", **how)
    page.wait("document.body.dataset.state === 'live'")
    return page


@pytest.mark.parametrize("width, height, dark", [(1440, 900, True), (1024, 768, False), (390, 844, True), (320, 568, False)])
def test_console_page_draws_every_file_and_does_not_scroll_sideways(server, browser, width, height, dark):
    fill(server)
    page = open_console(browser, server, width=width, height=height, dark=dark)
    files = sum(len(run["cells"]) for run in numbers(server)["tree"]["runs"])
    page.wait(f"document.querySelectorAll('.cell:not(.mem):not(.gone)').length === {files}")
    page.wait("document.querySelector('#ops').textContent !== '\\u2013'")  # after a second reply there are rates
    page.wait("performance.getEntriesByType('resource').filter((e) => e.name.includes('/console.json')).length >= 4")
    assert page.errors == [] and page.refused() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert page.layout_shift() < 0.1
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == ("dark" if dark else "light")
    assert page.text("#fact-tombstones") == "30" and page.text("#fact-missed") == "0"
    assert page.text("#stall-deadline").endswith("%")
    assert SECRET not in page.evaluate("document.documentElement.outerHTML")
    page.close()


# The elements that reach beyond the left or right edge of the window.
BEYOND = """[...document.querySelectorAll("body *")].filter((e) => {
  const r = e.getBoundingClientRect();
  return r.width > 0 && r.height > 0 && (r.left < -0.5 || r.right > innerWidth + 0.5);
}).map((e) => [e.tagName, e.id, String(e.className), e.getBoundingClientRect().right].join(" "))"""
# For each file: its position within its run as a share of the run's width, its height, its middle and its colour.
DRAWN = """Object.fromEntries([...document.querySelectorAll(".cell:not(.mem):not(.gone)")].map((e) => {
  const lane = e.parentNode.getBoundingClientRect(), r = e.getBoundingClientRect();
  return [e.dataset.key, { x0: (r.left - lane.left) / lane.width, x1: (r.right - lane.left) / lane.width, height: r.height,
    x: r.left + r.width / 2 + scrollX, y: r.top + r.height / 2 + scrollY, slack: 2.5 / lane.width,
    colour: getComputedStyle(e).backgroundColor.match(/[0-9]+/g).map(Number) }];
}))"""


@pytest.mark.parametrize("width, height, dark", [(1600, 1000, True), (360, 740, False)])
def test_console_draws_files_at_their_key_ranges_coloured_by_their_oldest_delete(fresh, browser, tmp_path, width, height, dark):
    # The files are small and not compressed, so that there are several.
    fresh.set("tree.file_size=64KiB", "storage.compression=none", "storage.compression_last_level=none")
    fresh.set("tree.policy.level0_runs=2").start()
    fill_two_levels(fresh)
    runs = numbers(fresh)["tree"]["runs"]
    assert [run["level"] for run in runs] == [0, 1] and len(runs[1]["cells"]) >= 4, runs
    assert [sum(cell.get("t", 0) for cell in run["cells"]) for run in runs] == [30, 0]
    files = {f"{run['id']}:{cell['f']}": cell for run in runs for cell in run["cells"]}

    page = open_console(browser, fresh, width=width, height=height, dark=dark)
    page.wait(f"document.querySelectorAll('.cell:not(.mem):not(.gone)').length === {len(files)}")
    page.wait("[...document.querySelectorAll('.cell')].every((e) => e.getAnimations().length === 0)")  # the cells stand still
    assert page.evaluate("[...document.querySelectorAll('.row .name b')].map((e) => e.textContent)") == ["L0", "L1"]
    assert page.evaluate(BEYOND) == []
    drawn = page.evaluate(DRAWN)
    assert drawn.keys() == files.keys()
    for key, cell in files.items():
        place = drawn[key]
        assert place["height"] >= 5 and place["x1"] - place["x0"] > 0, (key, place)
        assert all(abs(place[end] - cell[end]) < place["slack"] for end in ("x0", "x1")), (key, place, cell)

    png = page.picture(scale=0.5)
    (tmp_path / f"console-{width}x{height}.png").write_bytes(png)  # for people to look at
    rows = pixels(png)
    assert abs(len(rows[0]) - width / 2) <= 1 and len(rows) >= height // 2 - 1
    assert len({pixel for row in rows for pixel in row}) > 50, "the picture is blank, or nearly so"
    assert len({tuple(place["colour"]) for place in drawn.values()}) >= 2, "files with deletes have the colour of those without"
    own = f"http://127.0.0.1:{fresh.metrics_port}/"
    assert own in page.asked and own + "console.json?db=0" in page.asked
    assert [url for url in page.asked if not url.startswith((own, "data:"))] == [] and page.refused() == []
    page.close()


# Keeps the largest used part of a deadline (in tenths) among all files drawn so far, and the file's colour at that moment.
WATCH_HEAT = """window.hottest = { heat: -1, colour: [] };
new MutationObserver(() => {
  for (const e of document.querySelectorAll(".cell[data-heat]:not(.mem):not(.gone)")) {
    if (Number(e.dataset.heat) <= hottest.heat || e.getAnimations().length) continue;
    hottest = { heat: Number(e.dataset.heat), colour: getComputedStyle(e).backgroundColor.match(/[0-9]+/g).map(Number) };
  }
}).observe(document.body, { subtree: true, childList: true, attributes: true })"""


def test_console_turns_files_with_deletes_red_until_the_deletes_are_purged(fresh, browser):
    fresh.set("tree.deletes.deadline=12s", "tree.policy.level0_runs=2").start()
    page = open_console(browser, fresh, dark=True)
    page.evaluate(WATCH_HEAT)
    fill_two_levels(fresh)
    page.wait("document.querySelector('#fact-tombstones').textContent === '30'")
    page.wait("document.querySelector('#fact-tombstones').textContent === '0'", 30)
    page.wait("document.querySelectorAll('.cell[data-heat]:not(.gone)').length === 0", 30)
    hottest = page.evaluate("hottest")
    red, green, blue = hottest["colour"][:3]
    assert hottest["heat"] >= 3 and red > green + 40 and red > blue + 40, hottest
    assert page.text("#fact-missed") == "0"
    page.close()


def test_console_can_be_navigated_from_file_to_file_by_keyboard(server, browser):
    fill(server)
    page = open_console(browser, server)
    page.wait("document.querySelectorAll('.row').length >= 2")
    page.evaluate("document.querySelector('.cell[tabindex=\"0\"]').focus()")
    first = page.evaluate("document.activeElement.dataset.key")
    page.key("ArrowDown")
    second = page.evaluate("document.activeElement.dataset.key")
    assert second and second != first
    label = page.evaluate("document.activeElement.getAttribute('aria-label')").replace("\u00a0", " ")
    assert label.startswith("File ") and "Size: " in label and "Oldest delete: " in label
    assert page.text("#detail-hint") == "Enter keeps it"
    page.key("Enter")
    assert page.text("#detail-hint") == "kept; Esc releases it"
    page.key("Escape")
    assert page.text("#detail-hint") == "Enter keeps it"
    assert page.evaluate("document.querySelectorAll('.cell[tabindex=\"0\"]').length") == 1, "Tab does not stop at exactly one file"
    page.close()


def test_console_shows_that_a_database_is_empty_and_that_the_server_is_lost_or_back(fresh, browser):
    fresh.start()
    page = open_console(browser, fresh)
    assert page.text("#empty-title") == "Database 0 is empty"
    fresh.client().set("k", "v")
    page.wait("document.querySelectorAll('.cell.mem').length === 1")
    assert page.evaluate("document.querySelector('#empty').hidden")
    fresh.kill()
    page.wait("document.body.dataset.state === 'lost'")
    assert page.text("#lost").startswith("The server has not answered since ")
    fresh.start()
    page.wait("document.body.dataset.state === 'live'")
    assert page.evaluate("document.querySelector('#lost').hidden")
    page.close()


def test_index_is_chosen_and_drawn_like_a_database(fresh, browser):
    fresh.start()
    client = fresh.client()
    client.execute_command("INDEX.CREATE", "towns", "PREFIX", "car:", "FIELD", "town")
    client.hset("car:1", "town", "Ulm")
    page = open_console(browser, fresh)
    page.wait("[...document.querySelector('#database').options].map((o) => o.text).join() === 'Database 0,Database 0, index towns'")
    page.evaluate("(() => { const pick = document.querySelector('#database'); pick.value = '1024'; pick.dispatchEvent(new Event('change')); })()")
    page.wait("location.hash === '#db=1024' && document.querySelectorAll('.cell.mem').length === 1")
    page.close()


def test_console_shows_html_in_the_texts_of_a_server_as_text(server, browser):
    """No text of a server may become a tag in the page."""
    head, body = ask(server, "/")
    answer = numbers(server)
    policy = next(line.split(": ", 1)[1] for line in head.splitlines() if line.startswith("Content-Security-Policy"))
    evil = "<img src=x onerror=alert(1)>"
    answer.update(version=evil, not_ready="", tickets=[{"id": evil, "done": False, "deadline": 0, "files_left": 1, "bytes_left": 1}])
    answer["tree"].update(policy=evil, jobs=[{"kind": evil, "reason": evil, "files": 1, "bytes": 1, "from": 0, "to": 1, "urgent": False}])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = self.path == "/"
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8" if page else "application/json")
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write((body if page else json.dumps(answer)).encode())

        def log_message(self, *_):
            pass

    fake = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=fake.serve_forever, daemon=True).start()
    try:
        page = browser.open(f"http://127.0.0.1:{fake.server_port}/")
        page.wait(f"document.querySelector('#tickets').innerText.includes({json.dumps(evil)})")
        assert page.evaluate("document.images.length") == 0
        assert page.refused() == []
        page.close()
    finally:
        fake.shutdown()
        fake.server_close()
