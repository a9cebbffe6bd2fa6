#!/usr/bin/env python3
"""dtbench export --for chakra: as many operations and bytes as dtbench check counts, and dependencies that can be met. Prints TAP.

Usage: test_chakra.py DTBENCH [CASE...]
"""
import json
import os
import re
import sys

from command import CONFIG, OK, USAGE, WORK, Skip, check, config, main, run  # beside this script

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
WAITS = {b"join", b"host", b"synchronize", b"wait"}  # compute nodes that are not kernels: joins, and the host
KINDS = {0: "all_reduce", 1: "reduce", 2: "all_gather", 5: "broadcast", 7: "reduce_scatter"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a protobuf message: whole numbers and bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        check(key & 7 in (0, 2), "wire type", key & 7)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def numbers(data):
    at, found = 0, []
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def read_trace(path):
    """The nodes of a file: {id, name, type, deps, attributes}."""
    with open(path, "rb") as file:
        data = file.read()
    at, messages = 0, []
    while at < len(data):
        size, at = varint(data, at)
        messages.append(data[at:at + size])
        at += size
    check(at == len(data) and dict(fields(messages[0]))[1] == b"0.0.4", "the file begins with its version")
    nodes = []
    for message in messages[1:]:
        node = {"deps": [], "attributes": {}, "duration": 0}
        for number, value in fields(message):
            if number in (4, 5):
                node["deps"] += numbers(value)
            elif number == 10:
                attribute = dict(fields(value))
                name = attribute.pop(1).decode()
                node["attributes"][name] = next(iter(attribute.values()), 0)
            else:
                node[{1: "id", 2: "name", 3: "type", 7: "duration"}[number]] = value
        nodes.append(node)
    return nodes


def traced(**changes):
    """{rank: nodes}, groups, and the output of check."""
    path = config("traced.json", device="sim", sweep=None, **changes)
    folder = os.path.join(WORK, "traces")
    result = run("export", path, "--for", "chakra", "--output", folder, "--all-ranks")
    if result.returncode == CONFIG and "without protobuf-c" in result.stderr:
        raise Skip("built without protobuf-c")
    check(result.returncode == OK, result.stderr)
    checked = json.loads(run("check", "--json", path, code=OK).stdout)[0]
    with open(os.path.join(folder, "comm_groups.json"), encoding="utf-8") as file:
        groups = json.load(file)
    ranks = changes["world_size"]
    traces = {rank: read_trace(os.path.join(folder, f"dtbench.{rank}.et")) for rank in range(ranks)}
    check_counts(traces, result.stdout + result.stderr)
    return traces, groups, checked


def check_counts(traces, said):
    """The files have the nodes that the export counts, and otherwise only nodes without device time: joins of messages, and waits of the host."""
    kernels, messages, collectives = (int(re.search(rf"([\d,]+) {word}", said)[1].replace(",", "")) for word in ("kernels", "messages", "collectives"))
    nodes = [node for trace in traces.values() for node in trace]
    waits = [node for node in nodes if node["type"] == COMPUTE and node["name"] in WAITS]
    check(sum(node["type"] == COMPUTE for node in nodes) - len(waits) == kernels, kernels, len(waits))
    check(all(node["duration"] == 0 for node in waits if node["name"] != b"host"), waits)
    check(sum(node["type"] in (SEND, RECEIVE) for node in nodes) == messages and sum(node["type"] == COLLECTIVE for node in nodes) == collectives, said)


def check_nodes(nodes):
    """Ids increase, and no node depends on a later one."""
    for node, before in zip(nodes[1:], nodes):
        check(node["id"] == before["id"] + 1, node)
    for node in nodes:
        check(all(0 < dep < node["id"] for dep in node["deps"]), node)


def bytes_by_kind(nodes, groups):
    """The bytes that dtbench check counts: whole buffers of collectives, and messages that are sent."""
    total = {}
    for node in nodes:
        a = node["attributes"]
        if node["type"] == COLLECTIVE:
            kind, size = KINDS[a.get("comm_type", 0)], a["comm_size"]
            size *= len(groups[a["pg_name"].decode()]) if kind == "all_gather" else 1
        elif node["type"] == SEND:
            kind, size = "send", a["comm_size"]
        else:
            continue
        total[kind] = total.get(kind, 0) + size
    return total


def test_ddp_and_fsdp_have_the_bytes_of_check():
    for paradigm in ("ddp", "fsdp"):
        traces, groups, checked = traced(world_size=2, paradigm=paradigm)
        for nodes in traces.values():
            check_nodes(nodes)
        found, wanted = bytes_by_kind(traces[0], groups), {}
        for kinds in checked["comm_bytes_per_step"].values():
            for kind, size in kinds.items():
                wanted[kind] = wanted.get(kind, 0) + size
        wanted = {kind: size for kind, size in wanted.items() if size}
        check(all(found.get(kind) == size for kind, size in wanted.items()), paradigm, found, wanted)
        check(sum(node["type"] == COMPUTE and node["duration"] > 0 for node in traces[0]) > 20, "kernels")


def test_messages_of_a_pipeline_find_each_other():
    traces, _, _ = traced(world_size=4, paradigm="ddp", batch_size=4, pipeline={"stages": 4, "chunks": 4, "order": "1f1b"},
                          model={"layers": 4, "heads": 4, "hidden": 64, "vocab_size": 500, "block_size": 32, "dtype": "fp32"})
    sent, received = [], []
    for rank, nodes in traces.items():
        check_nodes(nodes)
        for node in nodes:
            a = node["attributes"]
            if node["type"] in (SEND, RECEIVE):
                check(a.get("comm_src", 0) == rank if node["type"] == SEND else a.get("comm_dst", 0) == rank, rank, a)
                (sent if node["type"] == SEND else received).append((a.get("comm_src", 0), a.get("comm_dst", 0), a["comm_size"]))
    check(sent and sorted(sent) == sorted(received), sent, received)


def test_ranks_that_stand_for_others():
    path = config("many.json", device="sim", sweep=None, world_size=64, paradigm="ddp")
    folder = os.path.join(WORK, "few")
    result = run("export", path, "--for", "chakra", "--output", folder)
    if "without protobuf-c" in result.stderr:
        raise Skip("built without protobuf-c")
    check(result.returncode == OK and len(os.listdir(folder)) < 10, result.stderr, os.listdir(folder))


def test_one_line_for_what_cannot_be():
    path = config("traced.json", sweep=None, paradigm="ddp")
    check("needs --output" in run("export", path, "--for", "chakra", code=USAGE).stderr, "--output")
    check("device is \"cpu\": traces need --device sim" in run("export", path, "--for", "chakra", "--output", "x", code=CONFIG).stderr, "cpu")


if __name__ == "__main__":
    sys.exit(main(globals()))
