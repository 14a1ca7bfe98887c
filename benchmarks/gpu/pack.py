"""Packs what scripts/gpu-check needs on a GPU machine without network: the trainer, its libraries, the checks.

torch's, CUDA's and libc's own libraries stay behind: the machine has them. libstdc++ and libgcc_s go into a folder of their
own, which is used only where the machine's are too old.
"""
import json
import os
import re
import shutil
import subprocess

LIMIT_BYTES = 64 << 20
# Of glibc, which must be the one of the machine's kernel and loader.
LIBC = re.compile(r"(ld-linux.*|lib(c|m|pthread|dl|rt|util|resolv|anl|nsl))\.so\..*")
COMPILERS_OWN = re.compile(r"lib(stdc\+\+|gcc_s)\.so\..*")
PYTHON_FILES = ("muster_gang.py", "muster_data.py", "ddp_rival.py", "rival_resnets.py", "gpu")


class NotPacked(Exception):
    """The text says why and what to do."""


def said_by(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, **options).stdout


def needed_by(binary):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said_by(["readelf", "--dynamic", binary]))


def own_libraries(trainer, torch_lib):
    """Paths by name of the libraries that the machine need not have. Those that only torch's want are torch's."""
    said = said_by(["ldd", trainer])
    lacking = re.findall(r"^\s*(\S+) => not found", said, re.M)
    if lacking:
        raise NotPacked(f"{trainer} does not find {', '.join(lacking)} here: build it again with scripts/check-cuda-build")
    places = dict(re.findall(r"^\s*(\S+) => (/\S+)", said, re.M))
    found, todo = {}, needed_by(trainer)
    while todo:
        name = todo.pop()
        path = places.get(name)
        foreign = (name in found or path is None or LIBC.fullmatch(name) or path.startswith(torch_lib + os.sep)
                   or "/nvidia/" in path or re.match(r"lib(cuda|cudart|nccl|cublas|cudnn)", name))
        if not foreign:
            found[name] = os.path.realpath(path)
            todo += needed_by(path)
    return found


def cached(build, name):
    with open(os.path.join(build, "CMakeCache.txt")) as cache:
        found = re.search(rf"^{name}:\w+=(.*)$", cache.read(), re.M)
    return found.group(1) if found else None


def torch_of(build):
    """torch's version, its CUDA's (None: without) and its folder of libraries, without importing it."""
    venv = cached(build, "MUSTER_VENV")
    folder = said_by([os.path.join(venv, "bin/python"), "-c", "import importlib.util as u; "
                      "print(u.find_spec('torch').submodule_search_locations[0])"]).strip()
    with open(os.path.join(folder, "version.py")) as file:
        text = file.read()
    version = re.search(r"__version__\s*=\s*'([^']+)'", text).group(1)
    cuda = re.search(r"^cuda\b.*=\s*'([^']+)'", text, re.M)
    return version, cuda.group(1) if cuda else None, os.path.join(folder, "lib")


def describe(trainer, torch, cuda, files):
    symbols = said_by(["nm", "--dynamic", "--undefined-only", trainer])
    needs = re.findall(r"Name: GLIBC_([\d.]+)", "".join(said_by(["readelf", "--version-info", path])
                                                        for path in [trainer, *files]))
    return {
        "format": 1,
        "muster": said_by([trainer, "--version"]).strip(),  # with the commit
        "torch": torch,
        "cuda": cuda if "c10d16ProcessGroupNCCL" in symbols else None,
        "cxx11_abi": "NSt7__cxx11" in symbols,
        "glibc": max(needs, key=lambda version: [int(part) for part in version.split(".")]),
    }


def size_of(folder):
    return sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(folder) for name in names)


def pack(source, build, folder):
    """Fills `folder`, which must not exist or be a pack of before; returns its manifest."""
    trainer = os.path.join(build, "bin/muster-trainer")
    if not os.path.exists(trainer):
        raise NotPacked(f"{trainer} is not there: run scripts/check-cuda-build first")
    if os.path.exists(folder):
        if os.listdir(folder) and not os.path.exists(os.path.join(folder, "manifest.json")):
            raise NotPacked(f"{folder} is there and holds something else: name a new folder")
        shutil.rmtree(folder)
    torch, cuda, torch_lib = torch_of(build)
    libraries = own_libraries(trainer, torch_lib)
    for name in ("bin", "lib", "lib-fallback", "benchmarks"):
        os.makedirs(os.path.join(folder, name))
    packed = os.path.join(folder, "bin/muster-trainer")
    shutil.copy(trainer, packed)
    subprocess.run(["strip", packed], check=True)
    for name, path in libraries.items():
        place = "lib-fallback" if COMPILERS_OWN.fullmatch(name) else "lib"
        shutil.copy(path, os.path.join(folder, place, name))
    for name in PYTHON_FILES:
        path, target = os.path.join(source, "benchmarks", name), os.path.join(folder, "benchmarks", name)
        if os.path.isdir(path):
            shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, target)
    shutil.copy(os.path.join(source, "scripts/gpu-check"), os.path.join(folder, "gpu-check"))
    manifest = describe(trainer, torch, cuda, libraries.values())
    manifest["libraries"] = sorted(libraries)
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(manifest, file, indent=2)
    size = size_of(folder)
    if size > LIMIT_BYTES:
        raise NotPacked(f"{folder} has {size / 2**20:.1f} MiB, more than the {LIMIT_BYTES >> 20} MiB that may be carried")
    return manifest, size
