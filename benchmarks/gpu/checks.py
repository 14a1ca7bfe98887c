"""What scripts/gpu-check holds against the trainer, but for its speed (throughput.py).

A check is a function of the session that gives cases: (name, bound in words, function). The function is called once and
gives a Finding or raises; a case that fails does not stop the others.
"""
import hashlib
import math
import os
import stat
import subprocess
import time

from gpu.session import Failed, muster_train

SAVED_AT, STEPS = 5, 10     # steps before the checkpoint that PyTorch continues, and steps compared
LOSS_BOUND = {"fp32": 1e-3, "bf16": 2e-2}
FOLLOW_BOUND = {"tf32": 5e-3, "bf16": 3e-2, "fp16": 1e-2}
HIGHEST_SCALE = 2.0 ** 32
LOSS_SECONDS = 10           # from the death of a rank to the end of another
TIMED_STEPS = 40
PARALLEL = {"sync_batch_norm": False, "compression": "none", "static_graph": False, "transport": "auto"}
OVERFLOW_STEPS = 40
HOST_LIMIT_KIB = 12 << 20   # of address space, so that a check without a GPU cannot take the machine's memory


class Finding:
    """`ok` is None where a check does not apply here."""

    def __init__(self, ok, text, **figures):
        self.ok, self.text, self.figures = ok, text, figures


def small_tasks(session):
    """Every network, small, with few samples: its losses fall quickly, so that a wrong step shows.

    In a deep net of batch norms a difference in the last digit grows threefold with each step: ResNet-50 is compared over
    few, and in fp32 alone (throughput.py compares it in bf16, with a thousand classes).
    """
    gpu = session.on_gpu
    side = 32 if gpu else 16
    common = {"samples": 96, "batch_size": 32, "seed": 5, "lr": 5e-4, "classes": 10}
    pictures = dict(common, shape=[3, side, side])
    return {
        "mlp": dict(common, model="mlp", hidden=[256, 256], shape=[256]),
        "resnet18": dict(pictures, model="resnet18", width=64 if gpu else 8),
        "resnet50": dict(pictures, model="resnet50", width=32 if gpu else 8, lr=1e-4, samples=64, batch_size=64, compared=4),
        "vit": dict(pictures, model="vit", patch=4, heads=3, lr=2e-3, **({"layers": 12, "width": 192} if gpu
                                                                         else {"layers": 2, "width": 48})),
        "gpt2": dict(common, model="gpt2", lr=3e-3, layers=4 if gpu else 2, heads=4, width=128 if gpu else 64,
                     context=128 if gpu else 32, classes=512),
    }


def largest_difference(ours, theirs):
    if len(ours) != len(theirs) or not ours:
        raise Failed(f"{len(ours)} losses against {len(theirs)}")
    if not all(math.isfinite(loss) for loss in [*ours, *theirs]):
        return math.inf
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def compare_with_pytorch(session, task, bound, save_at=SAVED_AT, steps=STEPS):
    """PyTorch continues Muster's checkpoint on the same batches; the losses must agree."""
    task = session.with_tokens(task)
    session.warm_rival()
    run = session.train(muster_train(task), save_at + steps, save_every=save_at)
    theirs = session.ask_rival(dict(task, checkpoint=run.saved[save_at]["path"], first_step=save_at, steps=steps))["losses"]
    ours = [run.losses[save_at + 1 + index] for index in range(steps)]
    difference = largest_difference(ours, theirs)
    return Finding(difference <= bound, f"losses differ by {difference:.1e} at most ({ours[0]:.3f} to {ours[-1]:.3f})",
                   difference=difference, muster=ours, pytorch=theirs)


def parity(session):
    def case(task, bound):
        return lambda: compare_with_pytorch(session, task, bound, steps=task.get("compared", STEPS))

    for name, task in small_tasks(session).items():
        for precision, bound in LOSS_BOUND.items():
            if precision != "fp32" and name not in (("resnet18", "gpt2") if session.quick else
                                                    ("mlp", "resnet18", "vit", "gpt2")):
                continue
            yield (f"{name} {precision}", f"{bound:g} relative, {task.get('compared', STEPS)} steps from one checkpoint",
                   case(dict(task, precision=precision), bound))


def amp(session):
    tasks = small_tasks(session)
    # fp16 convolutions take minutes on a CPU.
    tasks = {name: session.with_tokens(tasks[name]) for name in ("resnet18" if session.on_gpu else "mlp", "gpt2")}
    fp32 = {}

    def losses_of(task, precision):
        run = session.train(muster_train(dict(task, precision=precision)), STEPS)
        return [run.losses.get(step, math.nan) for step in range(1, STEPS + 1)]

    def follow(name, precision, bound):
        def check():
            if name not in fp32:
                fp32[name] = losses_of(tasks[name], "fp32")
            losses = losses_of(tasks[name], precision)
            difference = largest_difference(losses, fp32[name])
            return Finding(difference <= bound, f"losses leave those of fp32 by {difference:.1e} at most",
                           difference=difference, losses=losses, fp32=fp32[name])
        return check

    def overflow():
        train = muster_train(dict(tasks["gpt2"], precision="fp16"))
        train["loss_scale"] = {"initial": HIGHEST_SCALE, "growth_interval": 2000, "max_skips": 25}
        run = session.train(train, OVERFLOW_STEPS)
        scale, skipped = run.last("loss_scale"), int(run.last("skipped_steps"))
        losses = [run.losses[step] for step in sorted(run.losses)]
        ok = (run.values[1]["skipped_steps"] == 1 and run.values[1]["loss_scale"] == HIGHEST_SCALE / 2
              and scale == HIGHEST_SCALE / 2 ** skipped and skipped < OVERFLOW_STEPS - STEPS
              and losses[-1] < losses[0])
        return Finding(ok, f"{skipped} steps skipped, scale 2^{math.log2(scale):g}, loss {losses[0]:.3f} to {losses[-1]:.3f}",
                       skipped_steps=skipped, loss_scale=scale, losses=losses)

    for name in tasks:
        for precision, bound in FOLLOW_BOUND.items():
            if not (session.quick and name == "gpt2" and precision == "tf32"):
                yield f"{name} {precision}", f"{bound:g} relative to fp32, {STEPS} steps", follow(name, precision, bound)
    yield "fp16 overflow", "skipped, the scale halves each time, training goes on", overflow


def digests(checkpoint):
    found = {}
    for name in ("model.safetensors", "optimizer.safetensors"):
        with open(os.path.join(checkpoint["path"], name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def determinism(session):
    tasks = small_tasks(session)
    half, whole = 6, 12

    def cases_of(name, task):
        task = session.with_tokens(task)
        train = dict(muster_train(task), deterministic=True, clip_norm=1.0)
        first = {}

        def original():
            if not first:
                first["run"] = session.train(train, whole, save_every=half)
            return first["run"]

        def equal(run, steps):
            ours, theirs = original(), run
            same = ([ours.losses[step] for step in steps] == [theirs.losses[step] for step in steps]
                    and digests(ours.saved[whole]) == digests(theirs.saved[whole]))
            return Finding(same, "weights, moments and losses " + ("are" if same else "are NOT") + " equal to the bit",
                           digests=digests(ours.saved[whole]), other=digests(theirs.saved[whole]))

        def rerun():
            original()
            return equal(session.train(train, whole, save_every=half), range(1, whole + 1))

        def resume():
            saved = original().saved[half]
            at = [{"path": saved["path"], "step": half, "manifest_sha256": saved["manifest_sha256"], "best": False}]
            return equal(session.train(train, whole, save_every=half, resume=at, attempt=2), range(half + 1, whole + 1))

        yield f"{name} rerun", "equal to the bit", rerun
        yield f"{name} resume", f"from step {half} as never stopped, to the bit", resume

    yield from cases_of("resnet18 fp32", dict(tasks["resnet18"], precision="fp32"))
    yield from cases_of("gpt2 bf16 dropout", dict(tasks["gpt2"], precision="bf16", dropout=0.1))


def limited_trainer(session):
    """Without a GPU: a trainer that may take so much address space and no more."""
    path = os.path.join(session.new_folder(), "limited-trainer")
    with open(path, "w") as script:
        script.write(f"#!/bin/sh\nulimit -v {HOST_LIMIT_KIB}\nexec '{session.trainer}' \"$@\"\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def out_of_memory(session):
    def absurd():
        # ResNet-18 of 3x32x32 keeps over 4 MiB of activations a sample; so it needs twice the device at least.
        memory = session.facts["gpus"][0]["memory_bytes"] if session.on_gpu else HOST_LIMIT_KIB << 10
        batch = max(65536 if not session.on_gpu else 1024, memory >> 21)
        task = {"model": "resnet18", "width": 64, "shape": [3, 32, 32], "classes": 10, "samples": 512, "seed": 1,
                "batch_size": batch, "lr": 1e-3, "precision": "fp32"}
        run = session.train(muster_train(task), 2, may_fail=True,
                            trainer=None if session.on_gpu else limited_trainer(session))
        result = run.result or {}
        said = result.get("message", "")
        ok = (result.get("failure_class") == "OUT_OF_MEMORY" and run.codes == [1] and "activations" in said
              and "train.batch_size" in said)
        return Finding(ok, f"batch {batch}: exit code {run.codes[0]}, {result.get('failure_class') or 'no failure class'}",
                       batch_size=batch, exit_code=run.codes[0], failure_class=result.get("failure_class"), message=said)

    yield "absurd batch", "failure class OUT_OF_MEMORY, parts and advice named", absurd


def timing(session):
    def parts():
        task = dict(small_tasks(session)["vit"], precision="fp32")
        run = session.train(muster_train(task), TIMED_STEPS)
        # What a device has not passed when a step is reported counts in the next one; the first ones warm up.
        timed = [values for step, values in run.values.items() if step > TIMED_STEPS // 2 and "step_seconds" in values]
        whole = sum(values["step_seconds"] for values in timed)
        shares = {part: sum(values[part + "_seconds"] for values in timed) / whole
                  for part in ("data", "forward_backward", "communication", "optimizer")}
        covered = sum(shares.values())
        ok = 0.8 <= covered <= 1.1 and shares["forward_backward"] > shares["optimizer"] and shares["communication"] < 0.05
        return Finding(ok, ", ".join(f"{part} {share:.0%}" for part, share in shares.items()), shares=shares)

    yield "parts of a step", "0.8 to 1.1 of it together; forward and backward take more than the optimizer", parts


def nccl(session):
    def two_ranks():
        gpus = len(session.facts["gpus"]) if session.on_gpu else 0
        if gpus < 2:
            return Finding(None, "not run: " + ("one GPU" if gpus else "no GPU"))
        task = session.with_tokens(dict(small_tasks(session)["gpt2"], precision="fp32"))
        one = session.train(muster_train(task), STEPS)
        two = session.train(muster_train(task), STEPS, ranks=2)
        difference = largest_difference([two.losses[step] for step in range(1, STEPS + 1)],
                                        [one.losses[step] for step in range(1, STEPS + 1)])
        return Finding(difference <= LOSS_BOUND["fp32"], f"losses of 2 ranks leave those of 1 by {difference:.1e} at most",
                       difference=difference)

    def sync_batch_norm():
        task = dict(small_tasks(session)["resnet50"], precision="fp32")
        train = dict(muster_train(task), parallel={**PARALLEL, "sync_batch_norm": True})
        # The gangs differ in the last digit already at the first step, as one and the same checkpoint does not.
        steps = task["compared"] - 1
        one, two = session.train(train, steps), session.train(train, steps, ranks=2)
        difference = largest_difference([two.losses[step] for step in range(1, steps + 1)],
                                        [one.losses[step] for step in range(1, steps + 1)])
        return Finding(difference <= LOSS_BOUND["fp32"], f"losses of 2 ranks leave those of 1 by {difference:.1e} at most",
                       difference=difference)

    def killed_rank():
        task = session.with_tokens(dict(small_tasks(session)["gpt2"], precision="fp32"))
        gang, killed = session.gang(muster_train(task), 1_000_000, ranks=2), []

        def kill_second(rank, line):
            if line["type"] == "metrics" and line["step"] >= 5 and not killed:
                killed.append(time.monotonic())
                gang.processes[1].kill()

        gang.on_line = kill_second
        gang.start()
        try:
            gang.processes[0].wait(session.left(120))
            seconds = time.monotonic() - killed[0] if killed else math.inf
        except subprocess.TimeoutExpired:
            raise Failed("the other rank did not end")
        finally:
            gang.wait(1)
        result = gang.results[0] or {}
        ok = result.get("failure_class") == "PEER_LOST" and seconds <= LOSS_SECONDS
        return Finding(ok, f"{result.get('failure_class') or 'no failure class'} after {seconds:.1f} s", seconds=seconds,
                       message=result.get("message"))

    def where_two(check):
        alone = session.on_gpu and len(session.facts["gpus"]) < 2
        return (lambda: Finding(None, "not run: one GPU")) if alone else check

    yield "two ranks", f"{LOSS_BOUND['fp32']:g} relative to one rank on the same batches", two_ranks
    yield ("sync batch norm", f"{LOSS_BOUND['fp32']:g} relative to one rank on the same batches",
           where_two(sync_batch_norm))
    yield "killed rank", f"the other one is PEER_LOST within {LOSS_SECONDS} s", where_two(killed_rank)
