"""The installed program is hardened: position-independent, its tables read-only once they are bound, no executable stack, checked stack frames
and library calls. Prints TAP. Usage: test_hardened.py DTBENCH [CASE...]."""
import re
import shutil
import subprocess
import sys

from tap_cases import COMMAND_S, Skip, check, chosen, run_all  # beside this script

DTBENCH = sys.argv[1]


def readelf(*options):
    if not shutil.which("readelf"):
        raise Skip("readelf is missing (binutils)")
    return subprocess.run(["readelf", "-W", *options, DTBENCH], capture_output=True, text=True, timeout=COMMAND_S, check=True).stdout


def test_addresses_are_random():
    check(re.search(r"Type:\s+DYN", readelf("-h")), "not position-independent")


def test_tables_are_read_only():
    check("GNU_RELRO" in readelf("-l"), "no read-only relocations")
    check(re.search(r"\bNOW\b", readelf("-d")), "functions are bound as they are called")


def test_stack_is_not_executable():
    flags = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x", readelf("-l"))
    check(flags and "E" not in flags[1], readelf("-l"))


def test_frames_and_library_calls_are_checked():
    symbols = readelf("-s")
    check("__stack_chk_fail" in symbols, "no stack protector")
    check(re.search(r"__\w+printf_chk", symbols), "library calls are not checked")


if __name__ == "__main__":
    sys.exit(run_all(chosen(globals())))
