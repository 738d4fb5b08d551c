"""Reproduces the headline figures of a paper: one table with the paper's value, the value here, their ratio and a verdict.

    autumn    Zhao et al., 2023: fewer levels by Garnering (section 4, Figures 2 to 5, Table 3)
    endure    Huynh et al., VLDB Journal 2024: nominal and robust tunings by the cost model (section 8, Figures 6 to 9)
    lethe     Sarkar et al., SIGMOD 2020: deletes on time, deletes by a second key (section 5, Figure 6)
    mao       Mao's thesis, 2023: stack-based merge policies and their simulation (chapter 3), an index of places (chapter 4), partitioned
              merges (chapter 5)
    monkey    Dayan et al., TODS 2018: filter memory by level, and navigation of policy, T and memory (section 5, Figures 12 to 14)

The verdicts are "met", "missed", and "not measurable" with the reason.
"""

import argparse
import sys

from common import programs, report
from papers import autumn, endure, lethe, mao, monkey

PAPERS = {"autumn": autumn, "endure": endure, "lethe": lethe, "mao": mao, "monkey": monkey}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./dev bench paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", choices=sorted(PAPERS), help="the paper")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, to check that everything works: the figures mean nothing")
    size.add_argument("--full", action="store_true", help="the paper's own sizes")
    parser.add_argument("--only", metavar="FIGURE", help="one figure or section of the paper, for example 8b; an unknown one prints the list")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run: what its file has is not measured again")
    parser.add_argument("--json", default=str(report.ROOT / "build/bench/paper.json"), help="file for the figures; its name gets the paper's; plots go beside it")
    return parser.parse_args()


def main():
    options = parse_arguments()
    paper = PAPERS[options.paper]
    if options.only not in (None, *paper.FIGURES):
        raise SystemExit(f"{options.paper} has no figure '{options.only}'; allowed: {', '.join(paper.FIGURES)}")
    path = report.Path(options.json)
    result = report.Result("paper", path.with_name(f"{path.stem}-{options.paper}{path.suffix}"), {"paper": options.paper, "quick": options.quick, "full": options.full})
    if options.resume:
        result.resume()
    programs.remember(result)
    paper.run(options, result)
    result.finish()


if __name__ == "__main__":
    sys.exit(main())
