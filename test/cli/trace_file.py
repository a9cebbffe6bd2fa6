"""Traces as a strict viewer reads them, for the tests."""
import collections
import json

from tap_cases import check  # beside this script


def events_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def slices_and_arrows(path):
    """The slices, and [(slice it leaves, slice it reaches)] for each arrow, read as strictly as a viewer may: all that Perfetto would drop fails.

    Every event has a process and a thread with a name; times are whole nanoseconds; slices of a thread do not overlap; an arrow has two ends of its own,
    each within one slice of its thread, and goes forwards in time.
    """
    events = events_of(path)
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    processes = {e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    slices, ends = collections.defaultdict(list), collections.defaultdict(list)
    for event in events:
        check(event["ph"] in ("M", "X", "s", "f", "C"), event)
        if event["ph"] in ("M", "C"):
            continue
        check((event["pid"], event["tid"]) in threads and event["pid"] in processes and event["name"] and event["cat"], event)
        event["begin"], length = (round(1e3 * event.get(key, 0)) for key in ("ts", "dur"))
        check(abs(1e3 * event["ts"] - event["begin"]) < 1e-3 and event["begin"] >= 0 and length >= 0, event)
        event["end"] = event["begin"] + length
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(event)
        else:
            ends[event["id"]].append(event)
    for row in slices.values():
        row.sort(key=lambda e: (e["begin"], e["end"]))
        for one, other in zip(row, row[1:]):
            check(one["end"] <= other["begin"], "slices of a thread overlap:", one, other)
    arrows = []
    for both in ends.values():
        check([e["ph"] for e in both] in (["s", "f"], ["f", "s"]), "an arrow has two ends:", both)
        both.sort(key=lambda e: e["ph"], reverse=True)
        check(both[0]["begin"] <= both[1]["begin"] and both[1]["bp"] == "e", "an arrow goes backwards:", both)
        found = [[s for s in slices[e["pid"], e["tid"]] if s["begin"] <= e["begin"] < s["end"]] for e in both]
        check([len(f) for f in found] == [1, 1], "an arrow's end is outside of the slices:", both, found)
        arrows.append((found[0][0], found[1][0]))
    return [s for row in slices.values() for s in row], arrows


def number_of(event):
    """(micro-batch, part) of a slice; None: it belongs to no micro-batch."""
    arguments = event.get("args", {})
    check(("micro_batch" in arguments) == ("part" in arguments), event)
    return (arguments["micro_batch"], arguments["part"]) if "part" in arguments else None


def check_pipeline(path, steps, stages, parts, micro_batches, blocks):
    """Slices have the numbers of their micro-batches and parts, and each message has one arrow, from virtual stage to virtual stage."""
    slices, arrows = slices_and_arrows(path)
    for rank in range(stages):
        for kernel in ("attention", "attention_gradient"):
            counts = collections.Counter(number_of(s) for s in slices if (s["pid"], s["name"], s["cat"]) == (rank, kernel, "compute"))
            check(counts == {(m, p): steps * blocks for m in range(micro_batches) for p in range(parts)}, rank, kernel, counts)
    updates = [s for s in slices if s["name"] in ("sgd", "optimizer")]
    check(updates and all(number_of(s) is None for s in updates), "an update is of no micro-batch:", updates)
    found = collections.Counter()
    for source, target in arrows:
        (batch, part), communicator = number_of(source), source["args"]["communicator"]  # "activations up"
        check(source["name"].startswith("send") and target["name"].startswith("recv") and source["args"]["bytes"] == target["args"]["bytes"], source, target)
        check(communicator == target["args"]["communicator"] and batch == number_of(target)[0], "the ends are of two messages:", source, target)
        found[communicator.split()[0], batch, part * stages + source["pid"], number_of(target)[1] * stages + target["pid"]] += 1
    last = parts * stages - 1
    forward = [("activations", m, v, v + 1) for m in range(micro_batches) for v in range(last)]
    backward = [("gradients", m, v + 1, v) for m in range(micro_batches) for v in range(last)]
    check(found == {message: steps for message in forward + backward}, found)
