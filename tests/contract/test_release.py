"""What the programs that are shipped must not have."""

import os
import re

import pytest

from support.server import ROOT, binary


@pytest.mark.skipif("EBBTIDE_SANITIZED" in os.environ, reason="a build with sanitizers is not shipped, and has the switch")
def test_no_bug_can_be_planted():
    header = (ROOT / "engine/base/planted_bug.h").read_text()
    switch = re.search(r"inline std::atomic<PlantedBug> (\w+)\{", header)[1].encode()
    for program in (binary(), binary("ebbtide-inspect")):
        content = program.read_bytes()
        assert b"block_checksum" in content  # the engine's names are in it, so the switch's would be
        assert switch not in content, program
