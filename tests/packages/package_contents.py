#!/usr/bin/env python3
"""scripts/release packs the programs of a build: what is in the packages, and what is not.

Usage: package_contents.py BUILD_DIR. Packs into a temporary folder and compiles nothing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"^project\(muster VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
PROGRAMS = {"controller": {"musterd"}, "worker": {"muster-worker", "muster-trainer", "muster-data", "muster-init"},
            "cli": {"muster"}}
# Of a Linux with this C library; the last are of the torch that is found at the start.
GIVEN = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+|libz|libexpat)\.so|"
                   r"(libtorch|libc10|libcudart|libnccl)")


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def dynamic(path):
    """The libraries that an ELF file needs, and its run paths."""
    text = run("readelf", "-d", path)
    return (set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)), re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", text))


def elf_files(folder):
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="muster-packages-")
        cls.out = pathlib.Path(cls.scratch.name) / "dist"
        cls.pack()
        cls.debs = {}
        for name in PROGRAMS:
            folder = pathlib.Path(cls.scratch.name) / name
            run("dpkg-deb", "-R", cls.out / f"muster-{name}_{VERSION}_amd64.deb", folder)
            cls.debs[name] = folder
        cls.wheel_file, = cls.out.glob("muster-*.whl")
        cls.wheel = pathlib.Path(cls.scratch.name) / "wheel"
        with zipfile.ZipFile(cls.wheel_file) as archive:
            archive.extractall(cls.wheel)
            for info in archive.infolist():  # extractall forgets what may be executed
                if not info.is_dir():
                    os.chmod(cls.wheel / info.filename, (info.external_attr >> 16) & 0o777)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def pack(cls):
        return run(ROOT / "scripts" / "release", "--no-build", "--build-dir", BUILD, "--out", cls.out)

    def control(self, name, field):
        return run("dpkg-deb", "-f", self.out / f"muster-{name}_{VERSION}_amd64.deb", field).strip()

    def test_the_checksums_are_those_of_all_packages(self):
        lines = (self.out / "SHA256SUMS").read_text().splitlines()
        self.assertEqual({line.split()[1] for line in lines},
                         {path.name for path in self.out.glob("muster-*")})
        self.assertEqual(len(lines), 5)
        run("sha256sum", "--strict", "-c", "SHA256SUMS", cwd=self.out)

    def test_the_list_of_what_it_is_made_of_names_libraries_and_torch(self):
        listed = {component["name"] for component in
                  json.loads((self.out / f"muster-{VERSION}.cdx.json").read_text())["components"]}
        self.assertLessEqual({"libgrpc++-dev", "libsqlite3-dev", "torch", "grpcio"}, listed)

    def test_a_second_release_of_the_same_files_makes_nothing(self):
        before = {path.name: path.stat().st_mtime_ns for path in self.out.glob("muster-*[!n]")}
        self.assertIn("the wheel is there", self.pack())
        self.assertEqual({path.name: path.stat().st_mtime_ns for path in self.out.glob("muster-*[!n]")}, before)

    def test_a_damaged_package_is_made_again(self):
        deb = self.out / f"muster-cli_{VERSION}_amd64.deb"
        whole = deb.read_bytes()
        deb.write_bytes(whole[:1000])
        self.assertIn("making the Debian packages", self.pack())
        self.assertTrue(deb.read_bytes() == whole, "the same files gave another package")

    def test_each_debian_package_has_its_programs_with_links_for_people(self):
        for name, programs in PROGRAMS.items():
            folder = self.debs[name]
            found = {path.name for path in (folder / "usr/lib/muster/bin").iterdir()}
            self.assertEqual(found, programs)
            for program in programs - {"muster-init"}:
                self.assertEqual((folder / "usr/bin" / program).resolve(),
                                 (folder / "usr/lib/muster/bin" / program).resolve())
            self.assertEqual(self.control(name, "Version"), VERSION)
        self.assertTrue(os.access(self.debs["worker"] / "usr/lib/muster/trainer/muster-trainer", os.X_OK))

    def test_what_watches_a_muster_and_job_files_are_in_the_packages_as_in_the_sources(self):
        share, = self.wheel.glob("muster-*.data/data/share/muster")
        for package, folders in (("controller", {"prometheus": "deploy/prometheus", "grafana": "deploy/grafana"}),
                                 ("cli", {"examples": "configs"})):
            for folder, source in folders.items():
                for packed in (self.debs[package] / "usr/share/muster" / folder, share / folder):
                    files = [path.relative_to(packed) for path in packed.rglob("*") if path.is_file()]
                    self.assertGreater(len(files), 1, packed)
                    for file in files:
                        self.assertEqual((packed / file).read_bytes(), (ROOT / source / file).read_bytes(), file)
        self.assertEqual({path.name for path in (share / "grafana/boards").iterdir()},
                         {path.name for path in (ROOT / "deploy/grafana/boards").glob("*.json")})
        # Prometheus takes it where it lies, with the rules beside it.
        self.assertIn("2 rule files found", run("promtool", "check", "config", share / "prometheus/prometheus.yml"))

    def test_debian_packages_depend_on_what_they_link_and_not_on_torch(self):
        self.assertIn("libmimalloc2.0", self.control("controller", "Depends"))
        self.assertIn("libcurl4", self.control("worker", "Depends"))
        for name in PROGRAMS:
            self.assertIn("libc6", self.control(name, "Depends"))
            self.assertNotIn("torch", self.control(name, "Depends"))

    def test_units_start_programs_of_their_package_and_settings_are_conffiles(self):
        for name, unit, settings in (("controller", "musterd", ["/etc/muster/musterd.yaml"]),
                                     ("worker", "muster-worker", ["/etc/muster/muster-worker.yaml", "/etc/muster/torch"])):
            folder = self.debs[name]
            text = (folder / "lib/systemd/system" / f"{unit}.service").read_text()
            command = re.search(r"^ExecStart=(.*)$", text, re.M).group(1).split()
            self.assertTrue((folder / command[0].lstrip("/")).resolve().exists(), command)
            self.assertIn("/" + str(pathlib.Path(command[2]).relative_to("/")), settings)
            self.assertEqual((folder / "DEBIAN/conffiles").read_text().split(), settings)
            for setting in settings:
                self.assertTrue((folder / setting.lstrip("/")).is_file(), setting)
            script = (folder / "DEBIAN/postinst").read_text()
            self.assertIn("adduser", script)
            self.assertNotRegex(script, r"(?m)^\s*systemctl (enable|start|restart)")
        self.assertFalse((self.debs["cli"] / "DEBIAN/postinst").exists())

    def test_the_wheel_has_all_programs_and_asks_for_the_torch_that_they_were_built_against(self):
        self.assertEqual({path.name for path in (self.wheel / "muster/bin").iterdir()}, set.union(*PROGRAMS.values()))
        info, = self.wheel.glob("muster-*.dist-info")
        metadata = (info / "METADATA").read_text()
        self.assertIn(f"\nVersion: {VERSION}", metadata)
        torch = run(sys.executable, "-c", "import importlib.metadata as m; print(m.version('torch').split('+')[0])").strip()
        self.assertIn(f"\nRequires-Dist: torch=={torch}\n", metadata)
        self.assertIn("\nRequires-Dist: grpcio>=", metadata)
        self.assertRegex((info / "WHEEL").read_text(), r"Tag: py3-none-manylinux_2_\d+_x86_64")
        entries = (info / "entry_points.txt").read_text()
        for program in set.union(*PROGRAMS.values()) - {"muster-init"}:
            self.assertIn(f"{program} = muster.programs:{program.replace('-', '_')}\n", entries)

    def test_the_wheel_has_the_python_package_with_its_types(self):
        found = {str(path.relative_to(self.wheel / "muster")) for path in (self.wheel / "muster").rglob("*.py*")}
        self.assertLessEqual({"__init__.py", "client.py", "reporter.py", "programs.py", "v1/job_service_pb2.py",
                              "v1/job_service_pb2.pyi"}, found)
        self.assertTrue((self.wheel / "muster/py.typed").exists())
        said = run(sys.executable, "-c", "import muster; print(muster.Client.__name__, muster.__file__)",
                   env={**os.environ, "PYTHONPATH": str(self.wheel)})
        self.assertIn(f"Client {self.wheel}", said)

    def test_what_the_wheel_needs_is_bundled_or_given(self):
        bundled = {path.name for path in (self.wheel / "muster.libs").iterdir()}
        self.assertFalse([name for name in bundled if name.startswith(("libtorch", "libc10"))])
        for path in elf_files(self.wheel):
            needed, paths = dynamic(path)
            self.assertEqual({name for name in needed if name not in bundled and not GIVEN.match(name)}, set(), path)
            for entry in paths:
                self.assertTrue(entry.startswith("$ORIGIN"), f"{path}: {entry}")

    def test_no_file_names_a_folder_of_the_machine_that_built_it(self):
        for folder in (*self.debs.values(), self.wheel):
            for path in elf_files(folder):
                self.assertFalse([entry for entry in dynamic(path)[1] if not entry.startswith("$ORIGIN")], path)
                content = path.read_bytes()
                for foreign in (str(BUILD), str(ROOT) + "/"):
                    self.assertEqual(content.find(foreign.encode()), -1, f"{path} holds {foreign}")

    def test_programs_say_the_version_and_the_commit_of_the_repository(self):
        commit = "unknown"
        if (ROOT / ".git").exists():
            commit = run("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, "rev-parse", "HEAD")[:12]
        programs = [self.wheel / "muster/bin" / name for name in ("muster", "musterd", "muster-worker", "muster-data")]
        programs += [self.debs[package] / "usr/lib/muster/bin" / name
                     for package, name in (("cli", "muster"), ("controller", "musterd"), ("worker", "muster-worker"))]
        for program in [*programs, BUILD / "bin/muster-trainer"]:
            self.assertRegex(run(program, "--version"),
                             rf"^{program.name} {re.escape(VERSION)} \(protocol \d+, commit {commit}(-dirty)?\)\n$",
                             f"{program}: built from another commit? scripts/build")

    def test_the_commit_is_unknown_only_without_a_repository(self):
        with tempfile.TemporaryDirectory(prefix="muster-commit-") as folder:
            source = pathlib.Path(folder) / "source"
            source.mkdir()
            file = source / "file"
            file.write_text("one")

            def told():
                run("cmake", f"-DSOURCE_DIR={source}", f"-DOUT={folder}/out.h", "-P", ROOT / "cmake/write_code_version.cmake")
                return re.fullmatch(r'#define MUSTER_CODE_VERSION "(.*)"\n', (pathlib.Path(folder) / "out.h").read_text()).group(1)

            def git(*words):
                return run("git", "-c", "user.name=n", "-c", "user.email=e", "-c", f"safe.directory={source}", "-C", source, *words)

            self.assertEqual(told(), "unknown")
            git("init", "-q")
            git("add", "file")
            git("commit", "-q", "-m", "first")
            git("tag", "v9.9.9")
            commit = git("rev-parse", "HEAD").strip()
            self.assertEqual(told(), commit)
            file.write_text("two")
            self.assertEqual(told(), commit + "-dirty")
            file.write_text("one")
            if os.geteuid() == 0:  # a clone of a person's that root builds, as in a container
                run("chown", "-R", "12345", source)
                self.assertEqual(told(), commit)

    def test_what_repeats_the_version_has_this_one(self):
        chart = (ROOT / "deploy/helm/muster/Chart.yaml").read_text()
        self.assertEqual(re.findall(r'^(?:version|appVersion): "?([^"\n]+)"?$', chart, re.M), [VERSION, VERSION])
        self.assertEqual(re.findall(r'^  tag: "([^"]+)"$', (ROOT / "deploy/helm/muster/values.yaml").read_text(), re.M), [VERSION])
        self.assertIn("\nVersion: @MUSTER_WHEEL_VERSION@\n", (ROOT / "deploy/wheel/METADATA.in").read_text())
        # Names of packages and images: muster-worker_1.2.3_amd64.deb, registry.example/muster:1.2.3.
        found = {}
        for path in (*(ROOT / "deploy").rglob("*"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"):
            if path.is_file() and (versions := re.findall(rb"\bmuster(?:-\w+)?[:_-](\d+\.\d+(?:\.\d+)*)", path.read_bytes())):
                found[str(path.relative_to(ROOT))] = {version.decode() for version in versions}
        self.assertEqual({path: versions for path, versions in found.items() if versions != {VERSION}}, {})
        self.assertLessEqual({"deploy/cloud-init/aws.yaml", "deploy/cloud-init/azure.yaml", "deploy/cloud-init/gcp.yaml",
                              "deploy/kubernetes/controller.yaml", "deploy/kubernetes/workers.yaml", "docs/INSTALL.md",
                              "docs/KUBERNETES.md"}, set(found))

    def test_images_of_other_packages_do_not_go_without_a_word(self):
        stale = [self.out / "muster-controller-0.0.9.oci.tar", self.out / "muster-controller-0.0.9.cdx.json"]
        for path in stale:
            path.write_text("of other packages")
        said = self.pack()
        for path in stale:
            self.assertIn(f"removing {path.name}, which is not of these packages", said)
            self.assertFalse(path.exists())
        usage = run(ROOT / "scripts/release", "--help")
        for made in ("muster-controller_*.deb", "muster-*.whl", "SHA256SUMS", ".oci.tar"):
            self.assertIn(made, usage)

    def test_the_changes_begin_with_this_version(self):
        changes = (ROOT / "CHANGELOG.md").read_text()
        self.assertEqual(re.search(r"^## (\S+)", changes, re.M).group(1), VERSION)


if __name__ == "__main__":
    unittest.main(verbosity=2)
