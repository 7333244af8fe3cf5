"""The end of a run: its steps, its dearest tests, what it passed over, and why something failed."""

DEAREST = 10


def show(steps, results, logs, seconds, again):
    """Prints it, and tells whether everything passed. `again`: the command that with T=NAME runs one test again."""
    print(f"\n== summary, {seconds:.0f} s")
    for step in steps:
        verdict = "ok" if step.passed else "FAILED"
        print(f"{step.name:<10} {verdict:<7} {step.seconds:5.0f} s   {step.notes}".rstrip())
    if len(results) > DEAREST:
        print("\nthe dearest tests:")
        for result in sorted(results, key=lambda result: -result.seconds)[:DEAREST]:
            print(f"{result.seconds:7.1f} s  {result.test.name}")
    passed_over = sorted({line for result in results for line in result.passed_over()})
    if passed_over:
        print("\nnot everything was tested:", *passed_over, sep="\n")
    failed = [result for result in results if not result.passed]
    passed = not failed and all(step.passed for step in steps)
    if passed:
        print("\neverything passed")
        return True
    print("\nwhy:")
    for step in steps:
        for line in [] if step.passed else step.why:
            print(f"{step.name}: {line}")
    for result in failed:
        print(f"{result.test.name}: `{again} T={result.test.name}` runs it alone; {result.log} has all it said")
        for line in result.why():
            print(f"    {line}")
    print(f"\nsomething FAILED; the logs are in {logs}")
    return False


def outcome(results):
    """Counts of results, for a step's line."""
    failed = sum(not result.passed for result in results)
    return f"{len(results) - failed} passed, {failed} failed"
