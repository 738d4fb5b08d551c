"""Lethe (Sarkar et al., SIGMOD 2020), section 5: deletes on time (FADE, Figures 6 A to F) and deletes by a second key (KiWi, 6 H to L)."""

from common import headlines
from papers import fade, kiwi

FIGURES = (*fade.PARTS, *kiwi.PARTS)


def run(options, result):
    found = []
    for half in (fade, kiwi):
        wanted = [part for part in half.PARTS if options.only in (None, part)]
        if wanted:
            found += half.run(wanted, options, result)
    print()
    headlines.show(found, result)
