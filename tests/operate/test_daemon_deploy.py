"""What deploy/ says is what this program takes: every flag, variable, path and time in it."""

import json
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from callboard.service.place import GRACE_SECONDS
from callboard.service.setting_sources import file
from callboard.service.settings import read_settings, resolve
from tests.service.conftest import ROOT, Cli

DEPLOY = ROOT / "deploy"
PATHS = ("/livez", "/readyz", "/startupz", "/metrics")


def flags(cli: Cli, command: str) -> set[str]:
    """What a command takes."""
    return set(re.findall(r"--[a-z][a-z-]+", cli(command, "--help").out))


@pytest.fixture
def unit() -> dict[str, dict[str, list[str]]]:
    """The unit's sections; a key may be there often."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (DEPLOY / "callboard.service").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(section, {}).setdefault(key, []).append(value)
    return found


@pytest.fixture
def documents() -> dict[str, dict[str, Any]]:
    """The manifest's objects by kind."""
    return {found["kind"]: found for found in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def test_the_unit_starts_a_daemon_by_flags_that_there_are(unit: dict[str, dict[str, list[str]]], cli: Cli) -> None:
    [command] = unit["Service"]["ExecStart"]
    program, verb, app, *rest = shlex.split(command)
    assert (Path(program).name, verb) == ("callboard", "daemon") and ":" in app
    given = [word for word in rest if word.startswith("--")]
    assert given and set(given) <= flags(cli, "daemon")
    values = dict(pairwise(rest))
    settings = read_settings(
        nodes=int(values["--nodes"]), health=values["--health"], drain_seconds=float(values["--drain-seconds"])
    )
    [stop] = unit["Service"]["TimeoutStopSec"]
    assert int(stop) > settings.drain_seconds + GRACE_SECONDS


def test_the_unit_is_told_when_it_is_ready_and_knows_the_exit_codes(unit: dict[str, dict[str, list[str]]]) -> None:
    service = {key: values[-1] for key, values in unit["Service"].items()}
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert service["RestartPreventExitStatus"].split() == ["2", "4", "5"]
    assert service["SuccessExitStatus"].split() == ["3", "143"]
    assert service["LoadCredential"].startswith("dsn:"), "the daemon looks for a credential of this name"
    variables = [value.split("=")[0] for value in unit["Service"]["Environment"]]
    assert not any("DSN" in name for name in variables)
    for hardening in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectKernelTunables"):
        assert service[hardening] == "yes"
    assert service["ProtectSystem"] == "strict"


def test_the_manifest_probes_what_there_is_and_waits_longer_than_a_drain(
    documents: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    pod = documents["Deployment"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    probes = {probe: container[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
    assert [probe["path"] for probe in probes.values()] == ["/startupz", "/readyz", "/livez"]
    [port] = container["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert pod["metadata"]["annotations"]["prometheus.io/path"] in PATHS
    path = tmp_path / "callboard.toml"
    path.write_text(documents["ConfigMap"]["data"]["callboard.toml"])
    settings = resolve((file(path),), principal="p")
    assert settings.health.endswith(f":{port['containerPort']}") and settings.health_anywhere
    assert pod["spec"]["terminationGracePeriodSeconds"] > settings.drain_seconds + GRACE_SECONDS


def test_the_manifest_runs_without_rights_and_keeps_the_dsn_in_a_file(documents: dict[str, dict[str, Any]]) -> None:
    for kind in ("Deployment", "Job"):
        spec = documents[kind]["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] and spec["automountServiceAccountToken"] is False
        [container] = spec["containers"]
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"]["drop"] == ["ALL"]
        variables = {entry["name"]: entry["value"] for entry in container["env"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert variables["CALLBOARD_DSN_FILE"] == mounts["dsn"] + "/dsn"
        assert "CALLBOARD_DSN" not in variables
    assert set(documents["Secret"]["stringData"]) == {"dsn"}


def test_the_commands_of_the_manifest_are_commands(documents: dict[str, dict[str, Any]], cli: Cli) -> None:
    for kind in ("Deployment", "Job"):
        [container] = documents[kind]["spec"]["template"]["spec"]["containers"]
        assert cli(container["args"][0], "--help").code == 0


def test_the_container_file_says_settings_that_there_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    for name, value in re.findall(r"(CALLBOARD_[A-Z_]+)=(\S+)", text):
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert settings.health_anywhere and settings.log_json
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert json.loads(command)[0] == "daemon"
    assert {word for word in json.loads(command) if word.startswith("--")} <= flags(cli, "daemon")
    [check] = re.findall(r"HEALTHCHECK.*CMD (\[.*\])", text)
    program, verb, *rest = json.loads(check)
    assert (program, verb) == ("callboard", "health") and rest[0] in flags(cli, "health")
    assert rest[1].endswith(":9464/readyz") and settings.health.endswith(":9464")
    assert re.search(r"^USER \d+", text, re.MULTILINE), "not root"


def test_the_example_configuration_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "OPERATIONS.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert tomllib.loads(example)
    path = tmp_path / "callboard.toml"
    path.write_text(example)
    assert resolve((file(path, has_dsn=True),), principal="p").nodes == 4


def test_every_exit_code_of_the_daemon_is_in_the_documentation_and_in_its_help(cli: Cli) -> None:
    text, told = (ROOT / "docs" / "OPERATIONS.md").read_text(), " ".join(cli("daemon", "--help").out.split())
    for code in (0, 1, 2, 3, 4, 5, 70, 75, 143):
        assert f"| {code} |" in text
        assert re.search(rf"\b{code}\b", told)
