#!/usr/bin/env python3
"""Ranks on two hosts (two addresses of this machine): shared memory inside a host, Gloo between the hosts.

The real muster-trainer, played against itself: the gang's losses are those of one process on the same global batch, two
runs end with the same bits, and after a rank was killed the others say that they lost it and the next attempt ends with
the bits of a run that nobody touched. A gang that is resumed on other hosts says that its bits will be others; over Gloo
they are the same.
"""
import hashlib
import os
import sys
import tempfile
import unittest

ROOT = os.environ.get("MUSTER_SOURCE_DIR", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("MUSTER_BIN_DIR", os.path.join(ROOT, "build/release/bin"))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from muster_gang import Gang, resolved_spec  # noqa: E402

STEPS, EVERY = 40, 10
LIMIT = 90  # seconds of a gang
# So many losses are compared with those of one process, and the steps are small: with larger ones the first unit that rounding
# switches on or off moves all later losses, over every transport alike, and when it does depends on the CPU's kernels.
COMPARED, SMALL_LR = 10, 0.002
TWO_AND_TWO = ("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2")
MIXED = ("127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.2")
ONE_HOST = ("127.0.0.1",) * 4
TWO_AND_ONE = ("127.0.0.1", "127.0.0.1", "127.0.0.2")


def gang_of(addresses, folder, steps=STEPS, attempt=1, resume=(), transport="auto", lr=0.02):
    spec = resolved_spec({
        "model": {"resnet18": {"width": 8, "stem": "small"}}, "batch_size": 24, "steps": steps, "seed": 3,
        "data": {"synthetic": {"samples": 480, "shape": [3, 8, 8], "classes": 5}}, "report_every_steps": 1,
        "parallel": {"sync_batch_norm": True, "compression": "none", "static_graph": False, "transport": transport},
        "optimizer": {"name": "sgd", "lr": lr, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}},
        ranks=len(addresses))
    spec["checkpoint"]["every_steps"] = EVERY
    hosts = [{"advertise_address": address} for address in addresses]
    return Gang(os.path.join(BIN, "muster-trainer"), spec, folder, ranks=len(addresses), attempt=attempt, resume=resume,
                launch_of=hosts)


def resume_of(gang, step):
    saved = next(line for line in gang.committed if line["step"] == step)
    return {"path": saved["path"], "step": step, "manifest_sha256": saved["manifest_sha256"], "best": False}


def run(addresses, folder, **more):
    return gang_of(addresses, folder, **more).run(LIMIT)


def losses(gang):
    return {step: values["loss"] for _, step, values in gang.metrics[0] if "loss" in values}


def last_weights(gang):
    last = max(gang.committed, key=lambda line: line["step"])
    with open(os.path.join(last["path"], "model.safetensors"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class TwoHosts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="muster-two-hosts-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_four_and_three_ranks_see_the_losses_of_one_process(self):
        alone = losses(run(("127.0.0.1",), self.path("alone"), steps=COMPARED, lr=SMALL_LR))
        self.assertLess(alone[COMPARED], 0.97 * alone[1])  # it learns, so a wrong gradient would show
        for name, addresses, layout in (("four", TWO_AND_TWO, "two_level 0-1,2-3"), ("three", TWO_AND_ONE, "two_level 0-1,2")):
            gang = run(addresses, self.path(name), steps=COMPARED, lr=SMALL_LR)
            self.assertIn(layout, gang.log())
            together = losses(gang)
            self.assertEqual(sorted(together), sorted(alone))
            worst = max(abs(together[step] - alone[step]) / alone[step] for step in alone)
            print(f"{name} ranks on two hosts: {COMPARED} losses within {worst:.1e} of one process")
            self.assertLess(worst, 1e-5)

    def test_two_runs_end_with_the_same_bits(self):
        once, again = (last_weights(run(TWO_AND_TWO, self.path(name))) for name in ("once", "again"))
        self.assertEqual(once, again)

    def test_after_a_rank_was_killed_the_next_attempt_ends_with_the_same_bits(self):
        untouched = last_weights(run(TWO_AND_TWO, self.path("untouched")))
        for victim in (1, 2):
            folder = self.path(f"killed-{victim}")
            gang = gang_of(TWO_AND_TWO, folder)

            # A step or two after the first checkpoint.
            def strike(rank, line, gang=gang, victim=victim):
                if rank == 0 and line["type"] == "metrics" and line["step"] > EVERY and gang.committed:
                    gang.processes[victim].kill()

            gang.on_line = strike
            gang.start()
            codes = gang.wait(LIMIT)
            for rank, code in enumerate(codes):
                self.assertEqual(code, -9 if rank == victim else 1, f"rank {rank}: {gang.log(rank)[-500:]}")
                if rank != victim:
                    self.assertEqual(gang.results[rank]["failure_class"], "PEER_LOST")
            newest = max(line["step"] for line in gang.committed)
            self.assertLess(newest, STEPS)
            resumed = run(TWO_AND_TWO, folder, attempt=2, resume=[resume_of(gang, newest)])
            self.assertGreater(min(losses(resumed)), newest)
            self.assertEqual(last_weights(resumed), untouched)
            self.assertNotIn("resume_not_bit_exact", resumed.log())

    def test_a_resume_on_other_hosts_says_that_the_bits_will_be_others(self):
        one_host = run(ONE_HOST, self.path("one-host"))
        for name, addresses, layout in (("two", TWO_AND_TWO, "two_level 0-1,2-3"), ("mixed", MIXED, "two_level 0+2,1+3"),
                                        ("same", ONE_HOST, None)):
            resumed = run(addresses, self.path(name), attempt=2, resume=[resume_of(one_host, EVERY)])
            warnings = [line for line in resumed.log().splitlines() if "resume_not_bit_exact" in line]
            if layout is None:
                self.assertEqual(warnings, [])
                self.assertEqual(last_weights(resumed), last_weights(one_host))
                continue
            self.assertEqual(len(warnings), 1)
            self.assertIn("changed=transport saved_over=shared_memory", warnings[0])
            self.assertIn(f'resumed_over="{layout}"', warnings[0])
            self.assertNotEqual(last_weights(resumed), last_weights(one_host))

    def test_over_gloo_the_bits_do_not_depend_on_the_hosts(self):
        one_host = run(ONE_HOST, self.path("one-host"), transport="gloo")
        for name, addresses in (("two", TWO_AND_TWO), ("mixed", MIXED)):
            resumed = run(addresses, self.path(name), attempt=2, resume=[resume_of(one_host, EVERY)], transport="gloo")
            self.assertEqual(last_weights(resumed), last_weights(one_host))
            self.assertNotIn("resume_not_bit_exact", resumed.log())

    def test_shared_memory_that_cannot_be_had_says_so_as_a_failed_start(self):
        # Files of at most 512 KiB: the memory is refused, with an error as the signal is ignored.
        gang = gang_of(TWO_AND_TWO[:2], self.path("refused"), transport="shared_memory")
        gang.launcher = ["sh", "-c", 'trap "" XFSZ; ulimit -f 1024; exec "$@"', "sh"]
        gang.start()
        self.assertEqual(gang.wait(LIMIT), [1, 1])
        for result in gang.results:
            self.assertEqual(result["failure_class"], "START_FAILED")
            self.assertIn("train.parallel.transport is shared_memory, but", result["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
