"""What docs/deploy offers fits what is there: metrics, options, the configuration, certificates."""

from __future__ import annotations

import asyncio
import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import coterie
from coterie.cli.serve import check_closed, command
from coterie.cluster.membership.config import convert
from coterie.cluster.membership.ports import free_ports
from coterie.cluster.node import Node
from coterie.cluster.wire.security import SECRET_BYTES_MIN, Security
from coterie.engines.file.directory.folder import COMMON, DEFAULT_FOLDER
from coterie.errors import ConfigError
from coterie.locks.once.record import started
from coterie.locks.once.report import JobView, figures
from coterie.telemetry import JobState, Metrics
from tests.cluster.local_cluster import document, url_of
from tests.cluster.test_cluster_metrics import get
from tests.yaml_subset import read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parent.parent / "docs" / "deploy"
NAME = re.compile(r"\bcoterie_\w+")


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def sample_names(text: str) -> set[str]:
    return {line.partition(" ")[0].partition("{")[0] for line in text.splitlines()} - {"#"}


@pytest.fixture(scope="module")
def exposed() -> set[str]:
    """Name every sample of a node that a program has joined, and of a program that counts."""
    made = document(1)
    (port,) = free_ports(1)
    made["nodes"]["a"]["metrics"] = f"127.0.0.1:{port}"

    async def main() -> str:
        async with coterie.join(made, node="a", new_cluster=True) as program, program.lock("x"):
            _, body = await get(port, b"GET /metrics HTTP/1.1\r\n\r\n")
            return body

    metrics = Metrics()
    metrics.run_began("nightly")
    metrics.job_seen(JobState("nightly", 1, 2.0, 86400))
    return sample_names(asyncio.run(main())) | sample_names(metrics.text()) | names_of_jobs()


def names_of_jobs() -> set[str]:
    """Name every sample that `coterie once --list -o prometheus` prints; docs/once.md explains them."""
    record = msgspec.structs.replace(
        started(None, "2026-11-17", 1, "host:1", 1.0).ended("done", "", 2.0), every=86400
    )
    names = sample_names(figures([JobView("nightly", "done", None, doubtful=False, record=record)]))
    page = (FOLDER.parent / "once.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"`(coterie_once_\w+)", page))
    return names


def expressions_of_the_rules() -> Iterator[tuple[str, str]]:
    (rules,) = read_all(read("alerts.yml"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def expressions_of_the_board() -> Iterator[tuple[str, str]]:
    for panel in json.loads(read("grafana.json"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


@pytest.mark.parametrize("source", [expressions_of_the_rules, expressions_of_the_board])
def test_every_metric_that_is_asked_for_is_exposed(
    source: Callable[[], Iterator[tuple[str, str]]], exposed: set[str]
) -> None:
    asked = list(source())
    assert len(asked) > 9
    for title, expression in asked:
        names = set(NAME.findall(expression))
        assert names or "up{" in expression, title
        assert names <= exposed, title


def test_the_page_about_metrics_names_each(exposed: set[str]) -> None:
    page = (FOLDER.parent / "metrics.md").read_text(encoding="utf-8")
    named = set(NAME.findall(page))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exposed}
    ours = {name for name in families if name.startswith("coterie_")} - names_of_jobs()
    assert ours - named == set()


def test_the_outcomes_that_are_asked_for_exist() -> None:
    asked = re.findall(r'outcome=\\?"(\w+)', read("alerts.yml") + read("grafana.json"))
    assert asked
    assert set(asked) <= set(Metrics().waits)


def test_each_rule_says_how_bad_it_is_and_what_to_do() -> None:
    (rules,) = read_all(read("alerts.yml"))
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_panels_of_the_board_do_not_overlap() -> None:
    panels = json.loads(read("grafana.json"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23, "a board has 24 columns"


def without_secrets(text: str) -> dict[str, Any]:
    """Return a configuration without the files that are not here."""
    secret = ("secret-file", "operator-secret-file", "tls")
    return {key: value for key, value in tomllib.loads(text).items() if key not in secret}


def node_of(arguments: list[str], tmp_path: Path) -> str:
    """Let the command read these arguments, and return which node it would run."""
    assert arguments[0] == "serve"
    assert "/etc/coterie/coterie.toml" in arguments
    file = tmp_path / "coterie.toml"
    file.touch()
    real = [str(file) if part == "/etc/coterie/coterie.toml" else part for part in arguments[1:]]
    node = command.make_context("serve", real).params["node"]
    assert isinstance(node, str)
    return node


def test_the_unit_runs_a_node_by_its_name(tmp_path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(read("coterie@.service"))
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/coterie")
    assert node_of(arguments, tmp_path) == "%i"


def test_the_compose_file_runs_the_nodes_of_the_configuration(tmp_path: Path) -> None:
    nodes = convert(without_secrets(read("coterie.toml"))).membership.members
    (composed,) = read_all(read("compose.yml"))
    services = composed["services"]
    assert list(services) == [member.name for member in nodes]
    for member in nodes:
        service = services[member.name]
        assert node_of(service["command"], tmp_path) == member.name
        assert member.address.host == member.name, "services find each other by their names"
        assert service["volumes"][1] == f"data-{member.name}:/var/lib/coterie"
        assert f"data-{member.name}" in composed["volumes"]


def test_the_stateful_set_has_a_pod_for_each_node_of_the_configuration(tmp_path: Path) -> None:
    found = {document["kind"]: document for document in read_all(read("kubernetes.yml"))}
    pods = found["StatefulSet"]
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert node_of(container["args"], tmp_path) == "$(POD_NAME)"
    config = convert(without_secrets(found["ConfigMap"]["data"]["coterie.toml"]))
    name, service = pods["metadata"]["name"], found["Service"]["metadata"]["name"]
    assert pods["spec"]["serviceName"] == service
    names = [f"{name}-{number}" for number in range(pods["spec"]["replicas"])]
    assert [member.name for member in config.membership.members] == names
    for member in config.membership.members:
        assert str(member.address) == f"{member.name}.{service}:7420"
        options = config.options(member.name)
        assert str(options.data).startswith("/var/lib/coterie/")
        ports = {port["containerPort"] for port in container["ports"]}
        assert options.metrics is not None
        assert ports == {options.listen.port, options.metrics.port}
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    volumes = [claim["metadata"]["name"] for claim in pods["spec"]["volumeClaimTemplates"]]
    assert volumes == ["data"]


def named_files(document: dict[str, Any]) -> list[str]:
    """List the files with secrets that a configuration names."""
    return [document["secret-file"], document["operator-secret-file"], *document["tls"].values()]


def test_the_containers_find_every_secret_that_the_configuration_names() -> None:
    document = tomllib.loads(read("coterie.toml"))
    (composed,) = read_all(read("compose.yml"))
    sources = set()
    for name, service in composed["services"].items():
        mounted = {}
        for secret in service["secrets"]:
            source, target = (
                (secret, secret)
                if isinstance(secret, str)
                else (secret["source"], secret["target"])
            )
            mounted[f"/run/secrets/{target}"] = source
        assert sorted(mounted) == sorted(named_files(document))
        assert mounted["/run/secrets/node.key"] == f"{name}.key", "each node has a key of its own"
        sources |= set(mounted.values())
    assert composed["secrets"] == {name: {"file": f"./secrets/{name}"} for name in sources}


def test_the_pods_find_every_secret_that_the_configuration_names() -> None:
    found = {document["kind"]: document for document in read_all(read("kubernetes.yml"))}
    spec = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "secrets"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "secrets"]
    assert volume["secret"]["defaultMode"] == 0o440, "JSON and YAML know no octal numbers"
    document = tomllib.loads(found["ConfigMap"]["data"]["coterie.toml"])
    recipe = read("README.md").partition("kubectl create secret generic ")[2].partition("```")[0]
    assert recipe.split()[0] == volume["secret"]["secretName"]
    made = re.findall(r"--from-file=(\S+)", recipe)
    assert {f"{mount['mountPath']}/{file}" for file in made} == set(named_files(document))
    policy = found["NetworkPolicy"]["spec"]
    labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == labels
    ports = {rule["port"] for ingress in policy["ingress"] for rule in ingress["ports"]}
    assert ports == {port["containerPort"] for port in container["ports"]}
    assert all(ingress["from"] for ingress in policy["ingress"])


@pytest.mark.parametrize("name", ["coterie.toml", "kubernetes.yml"])
def test_no_node_of_these_files_lets_other_machines_in_without_a_proof(
    name: str, tmp_path: Path
) -> None:
    """What they name is made here, so that `serve` gets as far as its judgement."""
    text = read(name)
    if name.endswith(".yml"):
        (text,) = [d["data"]["coterie.toml"] for d in read_all(text) if d["kind"] == "ConfigMap"]
    document = tomllib.loads(text)
    del document["tls"]  # the recipe of tls.md has a test of its own
    for key in ("secret-file", "operator-secret-file"):
        document[key] = key
        (tmp_path / key).write_text("x" * SECRET_BYTES_MIN)
    config = convert(document, tmp_path)
    for node, options in config.nodes.items():
        check_closed(node, options.listen, config.security)
        with pytest.raises(ConfigError, match="neither a secret nor TLS"):
            check_closed(node, options.listen, Security())
    if name == "coterie.toml":
        shown = [options.metrics for options in config.nodes.values()]
        assert all(address and address.is_loopback for address in shown)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates")
def test_a_cluster_starts_with_the_certificates_of_the_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.cluster.membership.discovery.DISCOVERY_SECONDS_MAX", 0.3)
    recipe = re.findall(r"```sh\n(.*?)```", read("tls.md"), re.DOTALL)[0]
    here, changed = re.subn(r"DNS:\S+", "IP:127.0.0.1", recipe)
    assert changed == 3
    subprocess.run(["sh", "-c", here], cwd=tmp_path, check=True, capture_output=True)
    assert not list(tmp_path.glob("*.ext")), "nothing is left behind"
    assert all(key.stat().st_mode & 0o077 == 0 for key in tmp_path.glob("*.key"))

    def tls(name: str) -> dict[str, str]:
        files = {"ca": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}
        return {key: str(tmp_path / file) for key, file in files.items()}

    made = document(3)
    configs = {name: convert({**made, "tls": tls(name)}) for name in "abc"}
    query = "&".join(f"{key}={value}" for key, value in tls("program").items())

    async def main() -> None:
        nodes = [Node(config, name, new_cluster=True) for name, config in configs.items()]
        try:
            for node in nodes:
                await node.start()
            url = url_of(configs["a"]).partition("?")[0]  # without certificates
            async with coterie.connect(f"{url}?{query}") as program, program.lock("x") as held:
                assert held.valid
                assert [len(node.voting.programs.sinks) for node in nodes] == [1, 1, 1]
            with pytest.raises(coterie.Unavailable):
                await coterie.connect(url).open()
            # What a program has been given lets it call, and not listen in the place of a node.
            await nodes.pop().stop()
            nodes.append(Node(convert({**made, "tls": tls("program")}), "c", new_cluster=True))
            await nodes[-1].start()
            at_c = f"coterie://{configs['c'].membership.members[-1].address}?{query}"
            with pytest.raises(coterie.Unavailable, match="purpose"):
                await coterie.connect(at_c).open()
        finally:
            for node in nodes:
                await node.stop()

    asyncio.run(main())


def test_the_directory_of_all_users_is_made_as_the_engine_expects_it() -> None:
    (line,) = [line for line in read("coterie.tmpfiles.conf").splitlines() if line[:1] != "#"]
    assert line.split() == ["d", DEFAULT_FOLDER, f"{COMMON:o}", "root", "root", "-"]
