"""The result of scripts/gpu-check as a table for people; the JSON beside it holds all of it."""


def mark(ok):
    return {True: "ok", False: "FAILED", None: "-"}[ok]


def print_case(case):
    print(f"{mark(case['ok']):7} {case['check'] + ': ' + case['name']:42} {case['text']}  [{case['bound']}; "
          f"{case['seconds']:.1f} s]", flush=True)


def print_rates(checks):
    rows = [case["figures"] for case in checks if case["check"] == "throughput" and case["figures"].get("rates")]
    if not rows:
        return
    head = ("row", "Muster", "Python", "ratio", "memory, Muster / Python", "Muster's step: data + fwd, bwd + optimizer", "bar")
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        parts = row["step_parts_ms"]
        for who, ratio in row["ratios"].items():
            bar = row["bar"] if who == row["bar_against"] else None  # None without a GPU, too
            met = "" if bar is None else f"{bar:g}: {'met' if ratio['median'] >= bar else 'NOT met'}"
            print("| " + " | ".join((
                row["what"], f"{row['rates']['muster']['median']:,.1f} {row['unit']}",
                f"{who} {row['rates'][who]['median']:,.1f}",
                f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})",
                f"{row['peak_bytes']['muster'] / 2**30:.2f} / {row['peak_bytes'][who] / 2**30:.2f} GiB",
                f"{parts['data']:.2f} + {parts['forward_backward']:.2f} + {parts['optimizer']:.2f} of {parts['step']:.2f} ms",
                met)) + " |")


def print_summary(result):
    print_rates(result["checks"])
    failed = [f"{case['check']}: {case['name']}" for case in result["checks"] if case["ok"] is False]
    passed = sum(case["ok"] is True for case in result["checks"])
    print(f"\n{passed} passed, {len(failed)} failed, {len(result['checks']) - passed - len(failed)} not run, in "
          f"{result['seconds']:.0f} s on {result['device']}")
    for name in failed:
        print(f"  failed: {name}")
