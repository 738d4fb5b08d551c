"""Tests the rules of deploy/prometheus: promtool accepts them, every alert fires exactly when it should, and the runbook has
every alert."""

import re
import subprocess

import pytest
import yaml
from support.server import ROOT

PROMETHEUS = ROOT / "deploy" / "prometheus"
HERE = ROOT / "tests" / "deploy"
RUNBOOK = (ROOT / "deploy" / "README.md").read_text()


def rules(name):
    return [rule for group in yaml.safe_load((PROMETHEUS / name).read_text())["groups"] for rule in group["rules"]]


def cases(name):
    return yaml.safe_load((HERE / name).read_text())["tests"]


ALERTS = [rule["alert"] for rule in rules("alerts.yml")]
RECORDS = [rule["record"] for rule in rules("recording.yml")]


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_configuration_with_its_rules():
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    assert {PROMETHEUS / name for name in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["rule_files"]} == {
        PROMETHEUS / "alerts.yml",
        PROMETHEUS / "recording.yml",
    }


def test_promtool_cases_give_the_expected_alerts_and_series():
    promtool("test", "rules", "alerts_cases.yml", "recording_cases.yml")


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not():
    expected = [(test["alertname"], bool(test["exp_alerts"])) for case in cases("alerts_cases.yml") for test in case["alert_rule_test"]]
    assert {alert for alert, fires in expected if fires} == set(ALERTS)
    assert {alert for alert, fires in expected if not fires} == set(ALERTS)


def test_every_recording_rule_has_a_test_case():
    expressions = [test["expr"] for case in cases("recording_cases.yml") for test in case["promql_expr_test"]]
    for record in RECORDS:
        assert any(record in expression for expression in expressions), record


@pytest.mark.parametrize("rule", rules("alerts.yml"), ids=lambda rule: rule["alert"])
def test_every_alert_has_severity_summary_and_runbook(rule):
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "runbook"}
    assert rule["annotations"]["runbook"] == f"deploy/README.md#{rule['alert'].lower()}"


def test_runbook_has_meaning_and_action_of_every_alert_and_of_no_other():
    sections = dict(re.findall(r"^### (Ebbtide\w+)\n(.*?)(?=^##|\Z)", RUNBOOK, re.M | re.S))
    assert list(sections) == ALERTS
    for alert, text in sections.items():
        assert re.search(r"^Meaning: \S", text, re.M) and re.search(r"^Action: \S", text, re.M), alert
