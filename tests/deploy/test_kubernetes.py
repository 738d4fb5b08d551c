"""Tests deploy/kubernetes: the manifests fit Kubernetes' own schemas, each other, the image and the alerts.

The schemas are those of the package kubernetes-validate, for an old and a new version. The test reads them from the package's
file, so it needs no cluster and no network.
"""

import json
import re
import subprocess
import zipfile

import jsonschema
import pytest
import yaml
from support.server import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
VERSIONS = ["v1.27.0", "v1.37.0"]
DOCUMENTS = [document for path in sorted(KUBERNETES.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())]

# These are the types of the used fields in the Prometheus operator's definition; kubernetes-validate has no schemas of operators.
STRING = {"type": "string"}
DURATION = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h))+$"}


def strict(required, **properties):
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


SERVICE_MONITOR = strict(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "monitoring.coreos.com/v1"},
    kind={"const": "ServiceMonitor"},
    metadata={"type": "object"},
    spec=strict(
        ["selector", "endpoints"],
        jobLabel=STRING,
        selector=strict(["matchLabels"], matchLabels={"type": "object", "additionalProperties": STRING}),
        endpoints={
            "type": "array",
            "items": strict(
                ["port"],
                port=STRING,
                path=STRING,
                interval=DURATION,
                scrapeTimeout=DURATION,
                relabelings={"type": "array", "items": strict([], sourceLabels={"type": "array", "items": STRING}, targetLabel=STRING)},
            ),
        },
    ),
)


def of_kind(kind):
    return [document for document in DOCUMENTS if document["kind"] == kind]


(STATEFUL_SET,) = of_kind("StatefulSet")
POD = STATEFUL_SET["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


@pytest.fixture(scope="module")
def schemas():
    (wheel,) = (ROOT / "build/tools/kubernetes").glob("kubernetes_validate-*.whl")
    with zipfile.ZipFile(wheel) as file:
        yield lambda version, name: json.loads(file.read(f"kubernetes_validate/kubernetes-json-schema/{version}-local-strict/{name}.json"))


def check(schemas, version, document):
    group, _, api = document["apiVersion"].rpartition("/")
    schema = schemas(version, "-".join(filter(None, [document["kind"].lower(), group.split(".")[0], api])))
    definitions = schemas(version, "_definitions")
    resolver = jsonschema.RefResolver(base_uri=schema["$id"], referrer=schema, store={definitions["$id"]: definitions})
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(document)


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_manifests_conform_to_the_schemas(schemas, version):
    checked = [document["kind"] for document in DOCUMENTS if document["kind"] != "ServiceMonitor" and check(schemas, version, document) is None]
    assert sorted(checked) == ["Service", "Service", "StatefulSet"]


def test_kubernetes_schemas_refuse_an_unknown_field(schemas):
    wrong = json.loads(json.dumps(STATEFUL_SET))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["httpGet"]["pathh"] = "/"
    with pytest.raises(jsonschema.ValidationError, match="pathh"):
        check(schemas, VERSIONS[0], wrong)


def test_service_monitor_conforms_to_its_schema_and_selects_one_port():
    (monitor,) = of_kind("ServiceMonitor")
    jsonschema.validate(monitor, SERVICE_MONITOR)
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    ports = [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]]
    found = [
        service["metadata"]["labels"]
        for service in of_kind("Service")
        if wanted <= service["metadata"]["labels"].items()
        for port in service["spec"]["ports"]
        if port["name"] in ports
    ]
    assert len(found) == 1  # with two services, Prometheus would scrape the server twice
    assert found[0][monitor["spec"]["jobLabel"]] == "ebbtide"  # the job that alerts.yml expects


def test_services_select_the_pod_and_have_the_ports_of_the_pod():
    labels = STATEFUL_SET["spec"]["template"]["metadata"]["labels"]
    assert STATEFUL_SET["spec"]["selector"]["matchLabels"].items() <= labels.items()
    names = {port["name"] for port in CONTAINER["ports"]}
    for service in of_kind("Service"):
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
        # If this were false, a full disk would cut off clients, and with them the deletes that free space.
        assert service["spec"]["publishNotReadyAddresses"] is True
    headless = [service["metadata"]["name"] for service in of_kind("Service") if service["spec"].get("clusterIP") == "None"]
    assert headless == [STATEFUL_SET["spec"]["serviceName"]]


def test_pod_has_the_user_ports_volume_and_version_of_the_image():
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    user, group = map(int, re.search(r"^USER (\d+):(\d+)$", dockerfile, re.M).groups())
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (user, group, group)
    assert re.search(r"^EXPOSE (.*)$", dockerfile, re.M)[1].split() == [str(port["containerPort"]) for port in CONTAINER["ports"]]
    volume = re.search(r"^VOLUME (\S+)$", dockerfile, re.M)[1]
    (claim,) = STATEFUL_SET["spec"]["volumeClaimTemplates"]
    assert {"name": claim["metadata"]["name"], "mountPath": volume} in CONTAINER["volumeMounts"]
    assert CONTAINER["image"].endswith(":" + re.search(r"^project\(ebbtide VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1])


def test_pod_has_no_privileges_and_a_read_only_root_file_system():
    assert POD["automountServiceAccountToken"] is False
    assert POD["securityContext"]["runAsNonRoot"] is True and POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in CONTAINER["resources"]["limits"] and "cpu" not in CONTAINER["resources"]["limits"]


def test_liveness_probe_asks_healthz_and_readiness_probe_asks_ready():
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_no_disruption_budget_blocks_the_drain_of_a_node():
    assert STATEFUL_SET["spec"]["replicas"] == 1
    assert not of_kind("PodDisruptionBudget")


def test_command_in_the_readme_prints_a_valid_prometheus_rule_object():
    readme = (ROOT / "deploy/README.md").read_text()
    command = re.search(r"^    (\{ printf .*?) \| kubectl apply -f -$", readme, re.M | re.S)[1]
    made = yaml.safe_load(subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("monitoring.coreos.com/v1", "PrometheusRule", "ebbtide")
    assert made["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
