"""Tests that shipped programs contain no test switches."""

import re

from support.server import ROOT, binary


def test_release_build_of_the_server_has_no_switch_for_planted_bugs():
    header = (ROOT / "engine/base/planted_bug.h").read_text()
    switch = re.search(r"inline std::atomic<PlantedBug> (\w+)\{", header)[1].encode()
    for program in (binary(), binary("ebbtide-inspect")):
        content = program.read_bytes()
        assert b"block_checksum" in content  # the binary has the engine's names, so it would have the switch's name, too
        # Only builds with sanitizers have the switch, and they are not shipped.
        assert (switch in content) == (b"__asan_" in content or b"__tsan_" in content), program
