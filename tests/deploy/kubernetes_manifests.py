#!/usr/bin/env python3
"""The chart of deploy/helm and the manifests of deploy/kubernetes: what they render to is valid for the newest API versions of
Kubernetes, restricted by its pod security standard, whole (what is named is there), and understood by the real programs, which are
started here as their pods would start them.

Needs scripts/requirements-peer.txt (scripts/setup --tests), which has kubernetes-validate and the schemas that come with it.
Helm itself is not run: render_chart.py knows the few words that the chart keeps to, and refuses others.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from typing import Any

import kubernetes_validate
import yaml

ROOT = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "deploy/helm"))

import render_chart  # noqa: E402

KUBERNETES = ROOT / "deploy/kubernetes"
VERSIONS = ["1.35", "1.36", "1.37"]
# Definitions of operators, which the schemas of Kubernetes do not have.
FOREIGN = {"Certificate", "PodMonitor"}
SECONDS_AFTER_GRACE = 15
WAIT = 60

EVERYTHING = """
imagePullSecrets: [{name: registry}]
tls:
  certManager: {enabled: true, issuer: {kind: Issuer, name: ours}}
  hosts: [muster.example.org]
controller:
  tokenSecret: muster-token
  checkpointRoot: s3://bucket/checkpoints
  storage: {className: fast, size: 100Gi}
  config: {recent-jobs: 20000, backup-dir: /backups}
  volumes: [{name: backups, persistentVolumeClaim: {claimName: muster-backups}}]
  volumeMounts: [{name: backups, mountPath: /backups}]
  nodeSelector: {disk: ssd}
  tolerations: [{key: system, operator: Exists, effect: NoSchedule}]
autoscaler: {enabled: true}
pools:
  cpu:
    labels: {disk: nvme}
    allowCommands: true
    config: {spool-max-bytes: 512MiB}
    autoscale: {enabled: true, min: 1, max: 3}
metrics: {podMonitor: true}
networkPolicy:
  people:
    - namespaceSelector: {matchLabels: {team: research}}
  workerEgress:
    - to: [{ipBlock: {cidr: 10.0.0.0/8}}]
      ports: [{port: 2049, protocol: TCP}]
"""
LEAST = """
networkPolicy: {enabled: false}
"""

Document = dict[str, Any]


def render(*texts: str) -> list[Document]:
    """What the chart makes of these values files, each laid over those before it."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{number}.yaml" for number in range(len(texts))]
        for path, text in zip(paths, texts):
            path.write_text(text)
        return [document for text in render_chart.render("muster", "muster", paths).values()
                for document in yaml.safe_load_all(text) if document]


COMMITTED = (KUBERNETES / "values.yaml").read_text()
RENDERS = {"default": render(), "committed": render(COMMITTED), "everything": render(EVERYTHING), "least": render(LEAST)}


def documented() -> list[Document]:
    """The blocks of YAML in docs/KUBERNETES.md: manifests, which have a kind, and values of the chart."""
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", (ROOT / "docs/KUBERNETES.md").read_text(), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(textwrap.dedent(block)) for block in blocks]


def documented_backup_values() -> str:
    [values] = [one for one in documented() if "kind" not in one]
    return json.dumps(values)


def of_kind(documents: list[Document], *kinds: str) -> list[Document]:
    return [one for one in documents if one["kind"] in kinds]


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {one["metadata"]["name"]: one for one in of_kind(documents, kind)}


def pods(documents: list[Document]) -> list[tuple[str, Document]]:
    return [(one["metadata"]["name"], one["spec"]["template"]) for one in of_kind(documents, "StatefulSet")]


def containers(pod: Document) -> list[Document]:
    return list(pod["spec"]["containers"] + pod["spec"].get("initContainers", []))


class Manifests(unittest.TestCase):
    def each(self) -> list[tuple[str, list[Document]]]:
        self.assertEqual(set(RENDERS), {"default", "committed", "everything", "least"})
        return list(RENDERS.items())

    def test_what_is_committed_is_what_the_chart_makes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([sys.executable, str(ROOT / "deploy/helm/render_chart.py"), "-f", str(KUBERNETES / "values.yaml"),
                                   "--out", folder], capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            fresh = {path.name: path.read_text() for path in pathlib.Path(folder).glob("*.yaml")}
        there = {path.name: path.read_text() for path in KUBERNETES.glob("*.yaml") if path.name != "values.yaml"}
        self.assertEqual(there, fresh, "run: deploy/helm/render_chart.py -f deploy/kubernetes/values.yaml --out deploy/kubernetes")

    def test_schemas(self) -> None:
        checked = 0
        for name, documents in self.each():
            self.assertLessEqual({one["kind"] for one in documents if "k8s.io" not in one["apiVersion"]
                                  and one["apiVersion"] not in ("v1", "apps/v1", "policy/v1")}, FOREIGN, name)
            for document in documents:
                if document["kind"] in FOREIGN:
                    continue
                for version in VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)
                    checked += 1
        self.assertGreater(checked, 150)

    def test_schemas_of_what_is_documented(self) -> None:
        manifests = [one for one in documented() if "kind" in one]
        self.assertEqual([one["kind"] for one in manifests], ["PersistentVolumeClaim", "PersistentVolumeClaim", "Pod"])
        for document in manifests:
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)

    def test_a_wrong_key_is_found(self) -> None:
        document = json.loads(json.dumps(of_kind(RENDERS["default"], "StatefulSet")[0]))
        document["spec"]["template"]["spec"]["containers"][0]["securtyContext"] = {}
        for version in VERSIONS:
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(document, version, strict=True)

    def test_pods_are_restricted(self) -> None:
        for name, documents in self.each():
            self.assertGreaterEqual(len(pods(documents)), 2, name)
            for pod_name, pod in pods(documents):
                where = f"{name}: {pod_name}"
                spec = pod["spec"]
                self.assertIs(spec["automountServiceAccountToken"], False, where)
                self.assertTrue(spec["securityContext"]["runAsNonRoot"], where)
                self.assertGreater(spec["securityContext"]["runAsUser"], 0, where)
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"}, where)
                for key in ("hostNetwork", "hostPID", "hostIPC"):
                    self.assertNotIn(key, spec, where)
                for container in containers(pod):
                    self.assertEqual(container["securityContext"],
                                     {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                      "capabilities": {"drop": ["ALL"]}}, where)
                    self.assertIn("memory", container["resources"]["limits"], where)
                    self.assertFalse([port for port in container.get("ports", []) if "hostPort" in port], where)
                kinds = {key for volume in spec["volumes"] for key in volume} - {"name"}
                self.assertLessEqual(kinds, {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim"}, where)
            for account in of_kind(documents, "ServiceAccount"):
                self.assertIs(account["automountServiceAccountToken"], False)

    def test_only_an_autoscaling_controller_has_a_token_and_only_for_its_pools(self) -> None:
        for name, documents in self.each():
            scales = name in ("committed", "everything")
            for pod_name, pod in pods(documents):
                tokens = [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
                self.assertEqual(len(tokens), 1 if scales and pod_name == "muster-controller" else 0, f"{name}: {pod_name}")
            roles = of_kind(documents, "Role", "ClusterRole")
            self.assertEqual(len(roles), 1 if scales else 0, name)
            for role in roles:
                [rule] = role["rules"]
                [target] = rule.pop("resourceNames")
                self.assertEqual(rule, {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get", "update"]})
                # Helm and the autoscaler would take turns.
                self.assertNotIn("replicas", named(documents, "StatefulSet")[target]["spec"])

    def test_what_is_named_is_there(self) -> None:
        for name, documents in self.each():
            secrets = {one["spec"]["secretName"] for one in of_kind(documents, "Certificate")}
            # Those that a person makes (docs/KUBERNETES.md).
            secrets |= {"muster-scrape-token", "muster-worker-scrape-token"}
            secrets |= {"muster-token"} if name == "everything" else {
                secret for pod, _ in pods(documents) for secret in (f"{pod}-tls", f"{pod}-http-tls")}
            for pod_name, pod in pods(documents):
                where = f"{name}: {pod_name}"
                spec = pod["spec"]
                self.assertIn(spec["serviceAccountName"], named(documents, "ServiceAccount"), where)
                claims = named(documents, "StatefulSet")[pod_name]["spec"].get("volumeClaimTemplates", [])
                volumes = {volume["name"] for volume in spec["volumes"] + [claim["metadata"] for claim in claims]}
                mounted = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
                self.assertEqual(mounted, volumes, where)
                for volume in spec["volumes"]:
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], named(documents, "ConfigMap"), where)
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], secrets, where)
                ports = {port["name"] for container in spec["containers"] for port in container["ports"]}
                for container in spec["containers"]:
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        if probe in container:
                            self.assertIn(container[probe]["httpGet"]["port"], ports, where)
                            self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS", where)
            for config in of_kind(documents, "ConfigMap"):
                self.assertNotIn("insecure", "".join(config["data"].values()), name)
            for owner in of_kind(documents, "StatefulSet"):
                self.assertIn(owner["spec"]["serviceName"], named(documents, "Service"), name)
                labels = owner["spec"]["template"]["metadata"]["labels"]
                self.assertLessEqual(owner["spec"]["selector"]["matchLabels"].items(), labels.items())
            self.assert_selectors_choose_pods(name, documents)

    def assert_selectors_choose_pods(self, name: str, documents: list[Document]) -> None:
        labels = [pod["metadata"]["labels"] for _, pod in pods(documents)]
        all_ports = {port["name"] for _, pod in pods(documents) for one in pod["spec"]["containers"] for port in one["ports"]}

        def chosen(selector: dict[str, str]) -> int:
            return sum(selector.items() <= one.items() for one in labels)
        for service in of_kind(documents, "Service"):
            self.assertEqual(chosen(service["spec"]["selector"]), 1, f"{name}: {service['metadata']['name']}")
            self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, all_ports)
        budgets = of_kind(documents, "PodDisruptionBudget")
        self.assertEqual(len(budgets), len(labels), name)
        for budget in budgets:
            self.assertEqual(chosen(budget["spec"]["selector"]["matchLabels"]), 1, f"{name}: {budget['metadata']['name']}")
        policies = of_kind(documents, "NetworkPolicy")
        self.assertEqual(len(policies), 0 if name == "least" else 3, name)
        for policy in policies:
            self.assertGreaterEqual(chosen(policy["spec"]["podSelector"]["matchLabels"]), 1, name)
            self.assertEqual(policy["spec"]["policyTypes"], ["Ingress", "Egress"])
            for rule in policy["spec"].get("ingress", []):
                self.assertTrue(rule.get("from"), "everybody may come in")
                self.assertLessEqual({port["port"] for port in rule.get("ports", [])}, all_ports)
        for monitor in of_kind(documents, "PodMonitor"):
            self.assertEqual(chosen(monitor["spec"]["selector"]["matchLabels"]), len(labels))
            endpoints = {one["port"]: one for one in monitor["spec"]["podMetricsEndpoints"]}
            self.assertEqual(endpoints.keys(), {"http", "metrics"})
            for port, server, token in (("http", "muster-controller", "muster-scrape-token"),
                                        ("metrics", "workers.muster.internal", "muster-worker-scrape-token")):
                self.assertEqual(endpoints[port]["scheme"], "https")
                self.assertEqual(endpoints[port]["tlsConfig"], {
                    "ca": {"secret": {"name": "muster-controller-tls", "key": "ca.crt"}}, "serverName": server})
                self.assertEqual(endpoints[port]["authorization"], {"credentials": {"name": token, "key": "token"}})

    def test_the_controller_is_one_on_a_volume_of_one_pod(self) -> None:
        for name, documents in self.each():
            spec = named(documents, "StatefulSet")["muster-controller"]["spec"]
            self.assertEqual(spec["replicas"], 1, name)
            [claim] = spec["volumeClaimTemplates"]
            self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOncePod"])
            budget = named(documents, "PodDisruptionBudget")["muster-controller"]
            self.assertEqual(budget["spec"]["maxUnavailable"], 0)

    def test_a_controller_that_is_not_ready_is_reached_and_not_killed(self) -> None:
        for name, documents in self.each():
            self.assertIs(named(documents, "Service")["muster-controller"]["spec"].get("publishNotReadyAddresses"), True, name)
            [container] = dict(pods(documents))["muster-controller"]["spec"]["containers"]
            for probe in ("startupProbe", "livenessProbe"):  # whose failures kill
                self.assertEqual(container[probe]["httpGet"]["path"], "/healthz", f"{name}: {probe}")

    def test_other_files_restart_the_controller_and_no_worker(self) -> None:
        before = dict(pods(render(EVERYTHING)))
        for change in ("controller: {config: {recent-jobs: 30000}}", "controller: {checkpointRoot: /elsewhere}",
                       "pools: {cpu: {autoscale: {max: 4}}}"):
            after = dict(pods(render(EVERYTHING, change)))
            self.assertNotEqual(after["muster-controller"], before["muster-controller"], change)
            self.assertEqual(after["muster-cpu"], before["muster-cpu"], change)
        self.assertEqual(dict(pods(render(EVERYTHING, "pools: {cpu: {maxUnavailable: 2}}"))), before)

    def test_the_pod_that_restores_is_as_the_controllers(self) -> None:
        documents = render(documented_backup_values())
        controller = dict(pods(documents))["muster-controller"]["spec"]
        [pod] = [one["spec"] for one in documented() if one.get("kind") == "Pod"]
        [musterd], [restore] = controller["containers"], pod["containers"]
        for key in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
            self.assertEqual(pod[key], controller[key], key)
        self.assertEqual(restore["securityContext"], musterd["securityContext"])
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]
                  if "persistentVolumeClaim" in volume}
        self.assertEqual(claims, {"data": "data-muster-controller-0", "backups": "muster-backups"})
        self.assertEqual(set(claims.values()), {one["metadata"]["name"] for one in documented()
                                                if one.get("kind") == "PersistentVolumeClaim"})
        places = {mount["name"]: mount["mountPath"] for mount in musterd["volumeMounts"]}
        for mount in restore["volumeMounts"]:
            self.assertEqual(mount["mountPath"], places[mount["name"]])
        self.assertEqual({mount["name"] for mount in restore["volumeMounts"]}, {volume["name"] for volume in pod["volumes"]})
        [own] = named(documents, "StatefulSet")["muster-controller"]["spec"]["volumeClaimTemplates"]
        [again] = [one for one in documented() if one.get("kind") == "PersistentVolumeClaim"
                   and one["metadata"]["name"] == claims["data"]]
        self.assertEqual(again["spec"], own["spec"])

    def test_pods_outlive_the_grace_of_their_agents(self) -> None:
        for name, documents in self.each():
            for pod_name, pod in pods(documents):
                if pod_name == "muster-controller":
                    continue
                config = yaml.safe_load(named(documents, "ConfigMap")[pod_name]["data"]["muster-worker.yaml"])
                grace = int(re.fullmatch(r"(\d+)s", config["stop-grace"])[1])  # type: ignore[index]
                self.assertGreaterEqual(pod["spec"]["terminationGracePeriodSeconds"], grace + SECONDS_AFTER_GRACE, name)
                self.assertNotIn("lifecycle", pod["spec"]["containers"][0], "a preStop takes time from the save")

    def test_gpus_are_asked_for_and_are_the_slots(self) -> None:
        container = dict(pods(RENDERS["committed"]))["muster-gpu-spot"]["spec"]["containers"][0]
        for what in ("requests", "limits"):
            self.assertEqual(container["resources"][what]["nvidia.com/gpu"], 8)
        config = yaml.safe_load(named(RENDERS["committed"], "ConfigMap")["muster-gpu-spot"]["data"]["muster-worker.yaml"])
        self.assertNotIn("slots", config)  # the agent finds the GPUs

    def test_certificates_have_the_names_of_the_workers(self) -> None:
        certificates = named(RENDERS["everything"], "Certificate")
        self.assertEqual(certificates["muster-cpu"]["spec"]["dnsNames"], ["muster-cpu-0", "muster-cpu-1", "muster-cpu-2"])
        self.assertIn("client auth", certificates["muster-cpu"]["spec"]["usages"])
        controller = certificates["muster-controller"]["spec"]
        self.assertIn("server auth", controller["usages"])
        config = yaml.safe_load(named(RENDERS["everything"], "ConfigMap")["muster-cpu"]["data"]["muster-worker.yaml"])
        self.assertIn(config["controller"].rsplit(":", 1)[0], controller["dnsNames"])
        self.assertIn("muster.example.org", controller["dnsNames"])


class Renderer(unittest.TestCase):
    def render(self, text: str, values: Any = None) -> str:
        root = {"Values": values or {"n": 3, "name": "a", "map": {"b": 1, "a": {"x": True}}, "list": ["p", "q"], "none": {}, "big": 1000000},
                "Release": {"Name": "r", "Namespace": "ns"}}
        return render_chart.Template("t.yaml", text).render(root)

    def test_what_it_knows(self) -> None:
        for text, expected in [
                ("a: {{ .Values.n }}\n", "a: 3\n"), ("{{ .Values.name | quote }}", '"a"'),
                ("a:\n  {{- if .Values.none }}\n  b: 1\n  {{- else }}\n  c: 2\n  {{- end }}\nd: 3", "a:\n  c: 2\nd: 3"),
                ("{{- range $k, $v := .Values.map }}\n{{ $k }}{{- end }}", "\na\nb"),
                ("{{ range $v := .Values.list }}<{{ $v }}>{{ end }}", "<p><q>"),
                ("{{ range $v := .Values.none }}<{{ $v }}>{{ end }}", ""),
                ("{{ range $i := until (int .Values.n) }}{{ $i }}{{ end }}", "012"), ("{{ add .Values.n 15 }}", "18"),
                ("x:\n  {{- toYaml .Values.map | nindent 2 }}", "x:\n  a:\n    x: true\n  b: 1"),
                ("{{ .Values.map | toJson }}", '{"a":{"x":true},"b":1}'), ('{{ "<&é" | toJson }}', '"\\u003c\\u0026é"'),
                ('{{ "a" | sha256sum }}', "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
                ('{{ print .Values.name "b" }}', "ab"), ("{{ if not .Values.none }}y{{ end }}", "y"),
                ("a   {{- \"b\" -}}   c", "abc")]:
            self.assertEqual(self.render(text), expected, text)

    def test_what_it_refuses(self) -> None:
        for text, why in [
                ("{{ .Values.missing }}", "there is no `missing`"), ("{{ .Values.map }}", "use toYaml"), ("{{ .Values.big }}", "exponent"),
                ("{{ tpl \"x\" . }}", "is no function"), ("{{ include \"x\" $ }}", "is no file of muster/templates"),
                ("{{ .Values.name | upper }}", "is no function"),
                ("{{ range .Values.list }}{{ end }}", "is none of"), ("{{ range $v := .Values.list }}{{ .Values.n }}{{ end }}", "write $"),
                ("{{ if .Values.n }}", "has no plain"), ("{{ end }}", "too many"), ("{{ with .Values.n }}{{ end }}", "is no function"),
                ("{{ if .Values.n }}{{ else if .Values.name }}{{ end }}", "has no plain"), ("{{/* no */}}", "few words"),
                ("{{ $x := 1 }}", "is no variable"), ("{{ .Values.n .Values.n }}", "too much"), ("{{ quote }}", "a value is missing")]:
            with self.assertRaisesRegex(render_chart.ChartError, re.escape(why), msg=text):
                self.render(text)

    def test_values_that_the_schema_refuses(self) -> None:
        for text, why in [("pool: {}", "pool"), ("user: 0", "user"), ("pools: {Gpu: {}}", "Gpu"), ("pools: {gpu: {replicas: 1}}", "pools.gpu"),
                          ("pools: {cpu: {replicas: two}}", "pools.cpu.replicas"), ("controller: {maxUnavailable: 2}", "maxUnavailable")]:
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(render_chart.ChartError, re.escape(why), msg=text):
                    render_chart.load_values([pathlib.Path(file.name)])

    def test_a_pool_is_taken_away_by_null(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("pools: {cpu: null}")
            file.flush()
            self.assertEqual(render_chart.load_values([pathlib.Path(file.name)])["pools"], {})


class RealPrograms(unittest.TestCase):
    """The controller and a worker of each pool, started with the arguments and files of their pods, on loopback."""

    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-chart-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.endpoints: dict[str, str] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.addCleanup(self.end_processes)

    def end_processes(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()

    def wait_for(self, condition: Any, what: str) -> Any:
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        logs = "\n".join(f"{path.name}:\n{path.read_text(errors='replace')}" for path in self.folder.glob("*.log"))
        raise AssertionError(f"{what}: not within {WAIT} s\n{logs}")

    def make_secrets(self) -> None:
        data = self.folder / "muster-controller/var/lib/muster/controller"
        self.run_program("musterd", "init", "--data-dir", data, "--host", "muster-controller.muster.svc", "--host", "muster-controller")
        self.secret("muster-controller/etc/muster-tls",
                    {"ca.crt": data / "tls/ca.pem", "tls.crt": data / "tls/server.pem", "tls.key": data / "tls/server.key"})
        tokens = {}
        for name in ("scrape-token", "worker-scrape-token"):
            tokens[name] = self.folder / name
            tokens[name].write_text(f"of-{name}")
        self.secret("muster-controller/etc/muster-scrape", {"token": tokens["scrape-token"]})
        for pool in ("cpu", "gpu-spot"):
            made = self.folder / "certified" / pool
            self.run_program("musterd", "certify", f"muster-{pool}-0", f"muster-{pool}-1", "--data-dir", data, "--out", made)
            self.secret(f"muster-{pool}/etc/muster-tls",
                        {"ca.crt": made / "ca.pem", "tls.crt": made / "worker.pem", "tls.key": made / "worker.key"})
            self.secret(f"muster-{pool}/etc/muster-http-tls",
                        {"ca.crt": made / "ca.pem", "tls.crt": made / "http.pem", "tls.key": made / "worker.key"})
            self.secret(f"muster-{pool}/etc/muster-scrape", {"token": tokens["worker-scrape-token"]})

    def run_program(self, program: str, *args: object) -> str:
        done = subprocess.run([str(BIN / program), *map(str, args)], capture_output=True, text=True, timeout=WAIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def secret(self, mount: str, files: dict[str, pathlib.Path]) -> None:
        """As the kubelet mounts it with defaultMode 288 and an fsGroup."""
        there = self.folder / mount
        there.mkdir(parents=True)
        for name, source in files.items():
            shutil.copyfile(source, there / name)
            (there / name).chmod(288)

    def localize(self, pod: str, text: str) -> str:
        """Paths below the pod's folder, ports that are free, and the controller where it is."""
        text = re.sub(r"(?<![\w./])/(etc/muster|var/lib/muster|checkpoints|backups)\b", rf"{self.folder}/{pod}/\1", text)
        text = text.replace("muster-controller.muster.svc:7071", self.endpoints.get("worker_address", "?"))
        # The ports for metrics stay beyond loopback, where they want TLS and a token.
        text = re.sub(r"0\.0\.0\.0:707[23]\b", "0.0.0.0:0", text)
        return re.sub(r"0\.0\.0\.0:[1-9]\d*", "127.0.0.1:0", text)

    def start(self, documents: list[Document], pod: str, name: str) -> subprocess.Popen[bytes]:
        [container] = dict(pods(documents))[pod]["spec"]["containers"]
        (self.folder / pod / "var/lib/muster").mkdir(parents=True, exist_ok=True)
        for file, text in named(documents, "ConfigMap")[pod]["data"].items():
            path = self.folder / pod / "etc/muster" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.localize(pod, text))
        known = {"POD_NAME": name, "POD_IP": "127.0.0.1"}
        given = {one["name"] for one in container.get("env", []) if "valueFrom" in one}
        self.assertEqual(given, set(known) if pod != "muster-controller" else set())
        argv = [str(BIN / pathlib.Path(container["command"][0]).name)]
        argv += [self.localize(pod, re.sub(r"\$\((\w+)\)", lambda found: known[found[1]], word)) for word in container["args"]]
        environment = dict(os.environ, **{one["name"]: self.localize(pod, one["value"])
                                          for one in container.get("env", []) if "value" in one})
        with open(self.folder / f"{pod}.log", "ab") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        self.processes.append(process)
        return process

    def wait_for_controller(self, controller: subprocess.Popen[bytes]) -> None:
        told = self.folder / "muster-controller/var/lib/muster/controller/endpoints.json"
        self.wait_for(lambda: told.exists() or controller.poll() is not None, "musterd")
        self.assertIsNone(controller.poll(), (self.folder / "muster-controller.log").read_text())
        self.endpoints = json.loads(told.read_text())

    def muster(self, *args: str) -> str:
        pod = self.folder / "muster-controller"
        return self.run_program("muster", "--addr", self.endpoints["grpc_address"], "--ca-file", pod / "etc/muster-tls/ca.crt",
                                "--token-file", pod / "var/lib/muster/controller/token", *args)

    def restore(self) -> subprocess.CompletedProcess[str]:
        """As the documented pod does it, on the folders of the controller's pod."""
        [container] = [one for one in documented() if one.get("kind") == "Pod"][0]["spec"]["containers"]
        words = [self.localize("muster-controller", word.replace("/usr/bin/musterd", str(BIN / "musterd")))
                 for word in container["command"] + container["args"]]
        return subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=False)

    def test_the_documented_pod_restores_a_backup(self) -> None:
        documents = render(documented_backup_values())
        self.make_secrets()
        pod = self.folder / "muster-controller"
        data = pod / "var/lib/muster/controller"
        (pod / "backups").mkdir()
        done = self.restore()
        self.assertNotEqual(done.returncode, 0, "there is no backup")
        self.assertTrue((data / "tls").exists(), "what was there stays when nothing can be restored")
        controller = self.start(documents, "muster-controller", "muster-controller-0")
        self.wait_for_controller(controller)
        self.muster("submit", "--name", "kept", "--", "true")
        self.muster("admin", "backup")
        for is_lost in (False, True):  # the databases, the whole volume
            controller.send_signal(signal.SIGTERM)
            self.assertEqual(controller.wait(WAIT), 0)
            if is_lost:
                shutil.rmtree(data.parent)
                data.parent.mkdir()
            else:
                (data / "state.db").write_bytes(b"no database")
            done = self.restore()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1 jobs of which 1 had not ended", done.stdout)
            self.assertEqual(len(list(data.parent.glob("controller.*"))), 0 if is_lost else 1, "what was there is kept")
            controller = self.start(documents, "muster-controller", "muster-controller-0")
            self.wait_for_controller(controller)
            self.assertIn("kept", self.muster("ls"))

    def test_they_understand_their_pods(self) -> None:
        documents = RENDERS["committed"]
        self.make_secrets()
        controller = self.start(documents, "muster-controller", "muster-controller-0")
        self.wait_for_controller(controller)
        # The second of the names that its certificate has.
        workers = [self.start(documents, f"muster-{pool}", f"muster-{pool}-1") for pool in ("cpu", "gpu-spot")]

        def nodes() -> dict[str, Document] | None:
            answer = json.loads(self.muster("nodes", "-o", "json"))
            found = {one["name"]: one for one in (answer if isinstance(answer, list) else answer.get("workers", []))}
            return found if len(found) == 2 else None
        found = self.wait_for(nodes, "both workers")
        self.assertEqual(found["muster-cpu-1"]["pool"], "cpu")
        self.assertEqual(found["muster-gpu-spot-1"]["pool"], "gpu-spot")
        self.assertEqual(found["muster-gpu-spot-1"]["labels"], {"spot": "true", "zone": "europe-west4-a"})
        for pod, server, token, place in (
                ("muster-controller", "muster-controller", "of-scrape-token", "controller"),
                ("muster-cpu", "workers.muster.internal", "of-worker-scrape-token", "worker")):
            told = json.loads((self.folder / pod / "var/lib/muster" / place / "endpoints.json").read_text())
            port = told["http_address" if place == "controller" else "metrics_address"].rpartition(":")[2]
            for shown, path, answer in ((token, "metrics", "200"), ("another", "metrics", "401"), ("another", "healthz", "200")):
                got = subprocess.run(["curl", "-sS", "-m", "20", "--cacert", self.folder / pod / "etc/muster-tls/ca.crt", "--resolve",
                                      f"{server}:{port}:127.0.0.1", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                                      f"Authorization: Bearer {shown}", f"https://{server}:{port}/{path}"],
                                     capture_output=True, text=True, timeout=WAIT, check=False)
                self.assertEqual(got.stdout, answer, f"{pod} {path}: {got.stderr}")
        for process in [*workers, controller]:
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(WAIT), 0)


if __name__ == "__main__":
    unittest.main()
