"""Collects the headline figures of a paper, and prints them as one table."""

from dataclasses import dataclass

from common import report


@dataclass
class Headline:
    """One figure: what it is, where it is in the paper, the paper's value and the value here.

    verdict is "met", "missed" or "not measurable"; why is one line for a verdict that is not "met".
    """

    what: str
    where: str
    paper: float
    ours: float
    verdict: str
    why: str = ""

    @property
    def ratio(self):
        return self.ours / self.paper if self.paper and self.ours is not None else None


def judged(what, where, paper, ours, met, why):
    """Returns a headline with the verdict "met" or "missed"; why is shown only for the latter."""
    return Headline(what, where, paper, ours, "met" if met else "missed", "" if met else why)


def show(headlines, result):
    """Prints the table and the reasons, and stores the figures."""
    rows = []
    for one in headlines:
        rows.append([one.what, one.where, report.cell(one.paper, ",.4g"), report.cell(one.ours, ",.4g"), report.cell(one.ratio), one.verdict])
        result.add(what="headline", headline=one.what, where=one.where, paper=one.paper, ours=one.ours, ratio=one.ratio, verdict=one.verdict, why=one.why)
    print(report.table(rows, ["", "in the paper", "paper", "ours", "ratio", "verdict"]))
    reasons = [f"  {one.what}: {one.why}" for one in headlines if one.why]
    if reasons:
        print("\n" + "\n".join(reasons))
