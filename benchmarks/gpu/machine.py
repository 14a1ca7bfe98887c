"""The machine that a packed folder was carried to: its Python's torch, whether muster-trainer fits it, what GPUs it has.

Used by scripts/gpu-check before anything is measured. Needs nothing but Python's own library; torch is asked in a process
of its own.
"""
import glob
import json
import os
import re
import subprocess

PROBE_SECONDS = 120
START_SECONDS = 60

PROBE = r"""
import json, os, sys
facts = {"python": sys.version.split()[0], "packages": {}}
for name in ("numpy", "torch"):
    try:
        module = __import__(name)
        facts["packages"][name] = module.__version__
    except Exception as error:
        facts["packages"][name] = None
        facts.setdefault("errors", []).append(f"{name}: {error}")
if facts["packages"]["torch"]:
    import torch
    facts["torch"] = torch.__version__
    facts["torch_folder"] = os.path.dirname(torch.__file__)
    facts["cxx11_abi"] = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
    facts["cuda"] = torch.version.cuda
    try:
        import nvidia
        facts["nvidia_folders"] = list(nvidia.__path__)
    except ImportError:
        facts["nvidia_folders"] = []
    facts["gpus"] = []
    if torch.version.cuda and torch.cuda.is_available():
        facts["cudnn"] = torch.backends.cudnn.version()
        facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        for index in range(torch.cuda.device_count()):
            gpu = torch.cuda.get_device_properties(index)
            facts["gpus"].append({"name": gpu.name, "memory_bytes": gpu.total_memory,
                                  "capability": f"{gpu.major}.{gpu.minor}", "processors": gpu.multi_processor_count})
print(json.dumps(facts))
"""


class Unusable(Exception):
    """Nothing can be checked here; the text says why and what to do."""


def first_line_of(command):
    try:
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, text=True).stdout
        return out.strip().splitlines()[0].strip() if out.strip() else None
    except (OSError, subprocess.TimeoutExpired):
        return None


def probe(python):
    """What this Python's torch is and sees."""
    try:
        run = subprocess.run([python, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             timeout=PROBE_SECONDS)
    except OSError as error:
        raise Unusable(f"{python} does not start: {error}; name the Python that has torch with --python")
    except subprocess.TimeoutExpired:
        raise Unusable(f"{python} did not import torch within {PROBE_SECONDS} s")
    if run.returncode != 0:
        raise Unusable(f"{python} failed: {run.stderr.strip()[-400:]}")
    facts = json.loads(run.stdout.strip().splitlines()[-1])
    for name, version in facts["packages"].items():
        if version is None:
            raise Unusable(f"{python} has no {name} ({'; '.join(facts['errors'])}); name one that has with --python")
    facts["driver"] = first_line_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    return facts


def release(version):
    """2.11.0+cu130 -> 2.11.0"""
    return version.split("+")[0]


def refuse_misfit(manifest, facts, device):
    """torch's C++ interface changes with each release: a trainer runs with the one that it was built for, or not at all."""
    built = manifest["torch"]
    way_out = (f"Build the trainer for torch {facts['torch']}: put it into scripts/requirements-cuda.txt, run "
               "scripts/check-cuda-build and pack again; or name a Python that has the right one with --python.")
    if release(built) != release(facts["torch"]):
        raise Unusable(f"the trainer was built for torch {built}, but this Python has {facts['torch']}. {way_out}")
    if manifest["cxx11_abi"] != facts["cxx11_abi"]:
        raise Unusable(f"the trainer was built with the C++11 ABI {'on' if manifest['cxx11_abi'] else 'off'}, torch here has "
                       f"it {'on' if facts['cxx11_abi'] else 'off'}. {way_out}")
    if manifest["cuda"]:
        if not facts["cuda"]:
            raise Unusable(f"the trainer was built for CUDA {manifest['cuda']}, but torch {facts['torch']} is without. "
                           f"{way_out}")
        if manifest["cuda"].split(".")[0] != facts["cuda"].split(".")[0]:
            raise Unusable(f"the trainer was built for CUDA {manifest['cuda']}, but torch here has {facts['cuda']}. {way_out}")
    if device != "cuda":
        return
    if not manifest["cuda"]:
        raise Unusable("the trainer was built without CUDA: run scripts/check-cuda-build where it is built, and pack "
                       "build/cuda; or try this script itself with --device cpu.")
    if not facts["gpus"]:
        raise Unusable("torch sees no GPU here (torch.cuda.is_available() is false): is the driver there, does nvidia-smi "
                       "list one? --device cpu tries this script itself without a GPU.")


def library_folders(root, facts, with_fallback):
    folders = [os.path.join(root, "lib-fallback")] if with_fallback else []
    folders.append(os.path.join(facts["torch_folder"], "lib"))
    places = facts["nvidia_folders"] + [os.path.join(os.path.dirname(facts["torch_folder"]), "nvidia")]
    for place in places:
        folders += sorted(glob.glob(os.path.join(place, "*", "lib")))
    folders += [os.path.join(root, "lib"), "/usr/local/cuda/lib64", "/usr/local/nvidia/lib64"]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return list(dict.fromkeys(folder for folder in folders if folder and os.path.isdir(folder)))


def listed_libraries(trainer, environment):
    """What the dynamic loader says of the program, as ldd would."""
    run = subprocess.run([trainer], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS,
                         env=dict(os.environ, LD_TRACE_LOADED_OBJECTS="1", **environment))
    return run.stdout


def trainer_environment(root, trainer, facts):
    """What to lay over the environment so that the trainer starts; not for Python, which finds its own libraries."""
    for with_fallback in (False, True):
        folders = library_folders(root, facts, with_fallback)
        environment = {"LD_LIBRARY_PATH": ":".join(folders)}
        said = listed_libraries(trainer, environment)
        lacking = re.findall(r"^\s*(\S+) => not found", said, re.M)
        unversioned = re.findall(r"version [`'](\S+)' not found", said)
        if not lacking and not unversioned:
            break
    if lacking:
        raise Unusable(f"muster-trainer cannot start, these libraries are missing: {', '.join(sorted(set(lacking)))} "
                       f"(looked in {', '.join(folders)})")
    if unversioned:
        raise Unusable(f"muster-trainer cannot start, this system is too old for it: {', '.join(sorted(set(unversioned)))} "
                       "not found; build it on a system no newer than this one")
    # Every symbol at once: a torch of the same number that was built otherwise shows here and not in the middle of a run.
    run = subprocess.run([trainer, "--version"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         timeout=START_SECONDS, env=dict(os.environ, LD_BIND_NOW="1", **environment))
    if run.returncode != 0:
        raise Unusable(f"muster-trainer does not start with this torch: {run.stderr.strip()[-400:]}")
    return environment, run.stdout.strip()
