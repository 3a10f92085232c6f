"""The files of deploy/ are valid, and name what there is: settings, routes, metrics."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import crossplane
import kubernetes_validate
import pytest
import typer.main
import yaml

from reticent.cli.main import app
from reticent.home import Settings
from reticent.service.telemetry import Metrics
from tests.test_layout import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
MANIFESTS = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text("utf-8"))
]
HEALTH = {"/v2/health/live", "/v2/health/ready"}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: each["kind"])
def test_manifests_fit_the_published_schemas(manifest):
    kubernetes_validate.validate(manifest, "1.30", strict=True)


def test_a_manifest_with_a_typo_is_refused():
    broken = json.loads(json.dumps(MANIFESTS[0]))
    broken["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.30", strict=True)


def hadolint(path: Path) -> str:
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [program, "--no-color", path], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_the_container_file_passes_its_linter(tmp_path):
    assert hadolint(DEPLOY / "Containerfile") == ""
    broken = tmp_path / "Containerfile"
    broken.write_text("FROM python\nRUN cd /tmp && pip install x\n")
    assert "DL" in hadolint(broken)


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.compose-spec", "deploy/compose.yaml"),
        ("vendor.github-workflows", ".github/workflows/test.yml"),
        ("vendor.github-workflows", ".github/workflows/release.yml"),
    ],
)
def test_files_fit_the_schemas_of_their_tools(schema, file, tmp_path):
    program = Path(sys.executable).with_name("check-jsonschema")

    def fits(path):
        words = [program, "--builtin-schema", schema, path]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    assert fits(ROOT / file)
    broken = tmp_path / Path(file).name
    broken.write_text((ROOT / file).read_text("utf-8") + "surprise: [1]\n")
    assert not fits(broken)


def test_workflows_call_targets_that_there_are():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        called = set(re.findall(r"\bmake ([a-z-]+)", path.read_text("utf-8")))
        assert called
        assert called <= targets


def test_nobody_is_root_and_nothing_else_is_written():
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    for pod in (
        m["spec"]["template"]["spec"] for m in MANIFESTS if m["kind"] == "StatefulSet"
    ):
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    assert service["service"]["read_only"] is True
    assert service["service"]["cap_drop"] == ["ALL"]


def test_the_unit_is_one():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "reticent.service")
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert unit["Service"]["ProtectSystem"] == "strict"
    program = shutil.which("systemd-analyze")
    if program is not None:
        done = subprocess.run(
            [program, "verify", DEPLOY / "reticent.service"],
            capture_output=True,
            text=True,
            check=False,
        )
        known = "/opt/reticent/bin/reticent is not executable"
        said = [line for line in done.stderr.splitlines() if known not in line]
        assert [line for line in said if "reticent.service" in line] == []


def test_the_proxy_is_configured():
    parsed = crossplane.parse(str(DEPLOY / "nginx.conf"), strict=True)
    assert parsed["status"] == "ok", parsed["errors"]
    (config,) = parsed["config"]
    text = json.dumps(config)
    # A request that was charged is not sent to a second server.
    assert '"proxy_next_upstream", "line"' in text.replace('"directive": ', "")
    assert "request_uri" not in text


def test_settings_are_settings():
    known = {f"RETICENT_{each.name.upper()}" for each in fields(Settings)}
    known.add("RETICENT_PORT")
    named = {
        name
        for path in FILES
        for name in re.findall(
            r"\bRETICENT_[A-Z]+(?:_[A-Z]+)*", path.read_text("utf-8")
        )
    }
    assert len(named) >= 5
    assert named <= known


def test_commands_are_commands():
    serve = typer.main.get_command(app).commands["serve"]
    options = {option for each in serve.params for option in each.opts}
    for path in FILES:
        text = path.read_text("utf-8")
        for line in text.splitlines():
            if re.search(r"\bserve\b.*--home", line):
                given = set(re.findall(r"--[a-z]+", line.split("serve", 1)[1]))
                assert given <= options, f"{path.name}: {line}"


def test_paths_of_health_are_those_of_the_service():
    named = {
        path
        for file in FILES
        for path in re.findall(r"/v2/health/[a-z]+", file.read_text("utf-8"))
    }
    assert named == HEALTH


def test_alerts_and_charts_name_metrics_that_there_are():
    known = {
        sample
        for family in Metrics().registry.collect()
        for sample in (family.name, f"{family.name}_total")
    }
    known.add("reticent_worker_deaths_total")
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text("utf-8"))
    charts = json.loads((DEPLOY / "grafana" / "reticent.json").read_text("utf-8"))
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    expressions += [
        target["expr"] for panel in charts["panels"] for target in panel["targets"]
    ]
    named = {name for each in expressions for name in re.findall(r"reticent_\w+", each)}
    assert len(named) >= 6
    assert named <= known
    assert all(
        rule["annotations"]["summary"]
        for group in rules["groups"]
        for rule in group["rules"]
    )
