"""scripts/first_gpu's parts: runner.py (limits, results), machine.py (what there is), checks.py (is it right), speed.py (how fast)."""
