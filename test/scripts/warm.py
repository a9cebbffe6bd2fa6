"""Runs scripts that draw, one after the other, and imports matplotlib once: that takes a second of processor time, of most pictures nearly all.

Usage: warm.py. A line of standard input is a file for all that the script says, and the words of its command, with tabs between them; the
answer is its exit status. Each script is a program of its own, in a copy of this process.
"""
import os
import runpy
import sys

import matplotlib.backends.backend_agg  # noqa: F401
import matplotlib.backends.backend_svg  # noqa: F401
import matplotlib.pyplot  # noqa: F401


def become(said, words):
    """This process is the script from now on."""
    for descriptor, path, flags in ((0, os.devnull, os.O_RDONLY), (1, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
        os.dup2(os.open(path, flags, 0o600), descriptor)
    os.dup2(1, 2)
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    runpy.run_path(words[0], run_name="__main__")
    sys.exit()


for line in sys.stdin:
    file, *command = line.rstrip("\n").split("\t")
    child = os.fork()
    if child == 0:
        become(file, command)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
