"""What the programs that are shipped must not have."""

import re

from support.server import ROOT, binary


def test_no_bug_can_be_planted():
    header = (ROOT / "engine/base/planted_bug.h").read_text()
    switch = re.search(r"inline std::atomic<PlantedBug> (\w+)\{", header)[1].encode()
    for program in (binary(), binary("ebbtide-inspect")):
        content = program.read_bytes()
        assert b"block_checksum" in content  # the engine's names are in it, so the switch's would be
        # Only what is built with sanitizers has it, and that is not shipped.
        assert (switch in content) == (b"__asan_" in content or b"__tsan_" in content), program
