#!/usr/bin/env python3
"""Writes what a release is made of as CycloneDX 1.6 JSON, and checks it against the schema.

Usage: sbom.py NAME VERSION OUT [--root FOLDER] [--built-with LIST]... [--wheel FILE]
  --root FOLDER       the Debian packages that are installed below it (an image's files)
  --built-with LIST   Debian packages of this machine that the programs were built with, some of them linked statically: the
                      first word of each line of LIST (scripts/apt-packages.txt)
  --wheel FILE        what a wheel requires of PyPI
Runs in the environment of scripts/requirements-release.txt.
"""
import argparse
import datetime
import email.parser
import os
import pathlib
import re
import subprocess
import sys
import uuid
import zipfile

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def debian_packages(root):
    """(name, version, architecture) of each installed one; of this machine without a root."""
    command = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version} ${Architecture}\n"]
    if root is not None:
        command.insert(1, f"--admindir={root / 'var/lib/dpkg'}")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [tuple(line.split()[1:]) for line in text.splitlines() if line.startswith("installed ")]


def debian(name, version, architecture, **more):
    ours = name.startswith("muster-")
    purl = PackageURL("deb", None if ours else "debian", name, version,
                      {"arch": architecture} if ours else {"arch": architecture, "distro": "debian-12"})
    return Component(name=name, version=version, type=ComponentType.APPLICATION if ours else ComponentType.LIBRARY, purl=purl,
                     bom_ref=str(purl), **more)


def components(options):
    if options.root is not None:
        for package in debian_packages(options.root):
            yield debian(*package)
    wanted = set()
    for path in options.built_with:
        wanted |= {line.split()[0] for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")}
    if wanted:
        found = [package for package in debian_packages(None) if package[0] in wanted]
        missing = wanted - {package[0] for package in found}
        if missing:
            sys.exit(f"sbom.py: not installed here: {', '.join(sorted(missing))}")
        for package in found:
            yield debian(*package, scope=ComponentScope.REQUIRED, properties=[Property(name="muster:use", value="build")])
    if options.wheel is not None:
        with zipfile.ZipFile(options.wheel) as archive:
            metadata, = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            headers = email.parser.BytesParser().parsebytes(archive.read(metadata))
        for requirement in headers.get_all("Requires-Dist", []):
            name, rest = re.match(r"([A-Za-z0-9_.-]+)\s*(.*)", requirement).groups()
            version = rest[2:] if rest.startswith("==") else None
            purl = PackageURL("pypi", None, name.lower(), version)
            yield Component(name=name, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl),
                            properties=[Property(name="muster:requires", value=requirement)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("version")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--built-with", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--wheel", type=pathlib.Path)
    options = parser.parse_args()
    subject = Component(name=options.name, version=options.version, type=ComponentType.APPLICATION, bom_ref="subject")
    found = list(components(options))
    bom = Bom(components=found)
    bom.metadata.component = subject
    # Equal files give an equal list: its time is the commit's, its number follows from what it says.
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted([options.name, options.version] +
                                                                       [component.bom_ref.value for component in found])))
    bom.register_dependency(subject, found)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        sys.exit(f"sbom.py: {options.name} breaks the schema: {wrong}")
    options.out.write_text(text + "\n")
    print(f"sbom.py: {options.out.name}: {len(found)} components")


if __name__ == "__main__":
    main()
