"""Tests .github/workflows: every command of a job exists, and what a job waits for or downloads is made by another one."""

import re

import pytest
import yaml
from support.server import ROOT

DEV = (ROOT / "dev").read_text()
JOBS = {
    f"{path.stem}/{name}": (job, yaml.safe_load(path.read_text())["jobs"])
    for path in sorted((ROOT / ".github/workflows").glob("*.yml"))
    for name, job in yaml.safe_load(path.read_text())["jobs"].items()
}


def used(job, action):
    """Returns the inputs of the steps that run an action, such as actions/cache."""
    return [step.get("with", {}) for step in job["steps"] if step.get("uses", "").split("@")[0] == action]


@pytest.mark.parametrize("name", JOBS)
def test_commands_of_a_job_exist_and_the_job_has_a_time_limit(name):
    job, _ = JOBS[name]
    assert 0 < job["timeout-minutes"] <= 360
    lines = "\n".join(step.get("run", "") for step in job["steps"])
    commands = re.findall(r"\./dev ([a-z-]+)", lines)
    assert commands or ".ci/run" in lines
    for command in commands:
        assert re.search(rf"^cmd_{command}\(\) ", DEV, re.M), command
    labels = re.search(r"^readonly labels='(.*)'$", DEV, re.M)[1].split()
    assert set(re.findall(r"-L (\S+)", lines)) <= set(labels)
    for script in re.findall(r"(?:^|\s)(\.ci/\S+)", lines):
        assert (ROOT / script).exists(), script


@pytest.mark.parametrize("name", JOBS)
def test_artifact_that_a_job_downloads_is_uploaded_by_a_job_that_it_needs(name):
    job, jobs = JOBS[name]
    needed = [job["needs"]] if isinstance(job.get("needs", []), str) else job.get("needs", [])
    assert set(needed) <= set(jobs)
    uploaded = {inputs["name"]: inputs["path"] for other in needed for inputs in used(jobs[other], "actions/upload-artifact")}
    for inputs in used(job, "actions/download-artifact"):
        # One file or glob is uploaded without its folders.
        assert uploaded[inputs["name"]].rsplit("/", 1)[0] == inputs["path"]


def test_every_job_keeps_a_cache_and_results_of_its_own():
    for action, field in (("actions/cache", "key"), ("actions/upload-artifact", "name")):
        keys = [inputs[field] for job, _ in JOBS.values() for inputs in used(job, action)]
        assert keys and len(keys) == len(set(keys)), keys


def test_ci_runs_the_tests_of_image_package_and_arm64_that_a_run_without_a_label_leaves_out():
    lines = "\n".join(step.get("run", "") for job, _ in JOBS.values() for step in job["steps"])
    for command in ("./dev test-container ", "./dev package --test ", "./dev test -L arm64"):
        assert command in lines + " ", command
