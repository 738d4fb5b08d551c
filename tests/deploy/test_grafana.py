"""Tests deploy/grafana: the dashboards fit the types that Grafana's developers publish, and Grafana's provisioning finds them.

The types are those of the package grafana-foundation-sdk, which is made from the schemas of Grafana's dashboards and panels. The
test reads the types from the package's file. Grafana itself has not read the dashboards here: Debian has no package of it.
"""

import json
import sys
import types
import typing

import pytest
import yaml
from support.server import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
FILES = sorted((GRAFANA / "dashboards").iterdir())


@pytest.fixture(scope="module")
def sdk():
    (wheel,) = (ROOT / "build/tools/grafana").glob("grafana_foundation_sdk-*.whl")
    sys.path.insert(0, str(wheel))
    from grafana_foundation_sdk.cog import encoder, plugins
    from grafana_foundation_sdk.models import dashboard

    plugins.register_default_plugins()
    yield types.SimpleNamespace(dashboard=dashboard.Dashboard, encode=lambda it: json.loads(encoder.JSONEncoder().encode(it)))
    sys.path.remove(str(wheel))


def lost(given, kept, where="dashboard"):
    """Lists the parts of a dashboard that the types do not have, or have with another value."""
    if isinstance(given, dict):
        if not isinstance(kept, dict):
            yield where
            return
        for key, value in given.items():
            if key not in kept and value is not None:
                yield f"{where}.{key}"
            elif key in kept:
                yield from lost(value, kept[key], f"{where}.{key}")
    elif isinstance(given, list):
        if not isinstance(kept, list) or len(given) != len(kept):
            yield where
            return
        for i, (one, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(one, other, f"{where}[{i}]")
    elif given != kept:
        yield f"{where}: {given!r} became {kept!r}"


def fits(value, wanted):
    """Returns true if a value has a declared type. An enumeration of strings also accepts the strings of its values."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is typing.Any or isinstance(wanted, (str, typing.TypeVar)):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(fits(one, arguments[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict)
    if wanted is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(wanted, type) and hasattr(wanted, "__members__"):  # `wanted` is an enumeration
        return isinstance(value, wanted) or value in [member.value for member in wanted]
    return not isinstance(wanted, type) or isinstance(value, wanted) or isinstance(value, dict)


def misfits(it, where="dashboard"):
    """Lists the attributes of an object of the package whose values do not have the declared type."""
    if isinstance(it, list):
        for i, one in enumerate(it):
            yield from misfits(one, f"{where}[{i}]")
    elif type(it).__module__.startswith("grafana_foundation_sdk"):
        module = sys.modules[type(it).__module__]
        for name, wanted in typing.get_type_hints(type(it), vars(module)).items():
            value = getattr(it, name, None)
            if value is None:
                continue
            if not fits(value, wanted):
                yield f"{where}.{name}: {value!r} is no {wanted}"
            yield from misfits(value, f"{where}.{name}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dashboard_conforms_to_the_published_types_of_grafana(sdk, path):
    given = json.loads(path.read_text())
    made = sdk.dashboard.from_json(given)
    assert list(misfits(made)) == []
    assert list(lost(given, sdk.encode(made))) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda panel: panel.update(gridPoss={}), "gridPoss"),
        (lambda panel: panel.update(title=7), "title"),
        (lambda panel: panel["gridPos"].update(w="8"), "w"),
        (lambda panel: panel["fieldConfig"]["defaults"]["custom"].update(drawStyle="linear"), "draw_style"),
        (lambda panel: panel["targets"][0].update(exprr="up"), "exprr"),
        (lambda panel: panel["options"]["legend"].update(shown=True), "shown"),
    ],
)
def test_published_types_of_grafana_refuse_a_wrong_name_or_value(sdk, change, where):
    given = json.loads((GRAFANA / "dashboards/tuning.json").read_text())
    change(given["panels"][0])
    made = sdk.dashboard.from_json(given)
    found = [*misfits(made), *lost(given, sdk.encode(made))]
    assert any(where in one for one in found), found


def test_every_query_of_a_dashboard_uses_the_provisioned_data_source():
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/ebbtide.yaml").read_text())["datasources"]
    for path in FILES:
        for panel in json.loads(path.read_text())["panels"]:
            for place in (panel, *panel["targets"]):
                assert place["datasource"] == {"type": source["type"], "uid": source["uid"]}, (path.name, panel["title"])
