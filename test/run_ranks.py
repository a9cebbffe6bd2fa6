"""run_ranks.py N PROGRAM: starts N ranks of a test program on this machine, without MPI. Rank 0's output is the test's; all must end well."""
import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    size, program = int(sys.argv[1]), sys.argv[2:]
    port = free_port()
    ranks = []
    for rank in range(size):
        place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port}
        ranks.append(subprocess.Popen(program, env=dict(os.environ, **{key: str(value) for key, value in place.items()})))
    codes = [rank.wait() for rank in ranks]
    return max(abs(code) for code in codes)


sys.exit(main())
