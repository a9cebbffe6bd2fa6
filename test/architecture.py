#!/usr/bin/env python3
"""Which module uses which, and uses that are not allowed. Prints one line for each offence; no output means success.

A module is a code file (.c, .cu) with the header of the same name. It uses another module where it includes the other one's header, or where
its object file needs a symbol that the other one's object file defines. A header without a code file of its own (backend.h, internal.h)
is a contract between modules and uses nothing.

Usage: architecture.py circles SOURCE_ROOT BUILD   no module uses itself by way of others, no header includes itself
       architecture.py folders SOURCE_ROOT         a folder includes only what ALLOWED names
       architecture.py described SOURCE_ROOT       each folder says what lives there
"""
import json
import os
import re
import subprocess
import sys

PARTS = ('lib', 'gpt', 'vision', 'schedules', 'predict', 'cli')
HEADERS = ('.h', '.cuh')
CODE = ('.c', '.cu', '.cpp')

# Each folder, and the other folders whose headers its files may include; lib/base is for all. A
# folder names only folders listed before it, so that there is no circle between folders.
ALLOWED = {
    'lib/base': [],
    'lib/config': [],
    'lib/launch': [],
    'lib/slurm': ['lib/launch'],
    'lib/sim': ['lib/config'],
    'lib/device': ['lib/sim'],
    'lib/device/cpu': ['lib/device'],
    'lib/device/cuda': ['lib/device'],
    'lib/record': ['lib/config', 'lib/device', 'lib/launch', 'lib/slurm'],
    'lib/cost': ['lib/config', 'lib/device', 'lib/sim'],
    'lib/kernels': ['lib/cost', 'lib/device'],
    'lib/kernels/cpu': ['lib/device/cpu', 'lib/kernels'],
    'lib/kernels/cuda': ['lib/device/cuda', 'lib/kernels', 'lib/kernels/cpu'],  # cpu: updates of offloaded parameters run on the host
    'lib/rendezvous': ['lib/launch', 'lib/record'],
    'lib/comm': ['lib/device', 'lib/launch'],
    'lib/comm/mpi': ['lib/comm', 'lib/device/cpu', 'lib/kernels/cpu'],
    'lib/comm/nccl': ['lib/comm', 'lib/device/cuda', 'lib/rendezvous'],
    'lib/data': [],
    'lib/tensors': ['lib/data'],
    'lib/model': ['lib/comm', 'lib/config', 'lib/cost', 'lib/data', 'lib/device', 'lib/kernels'],
    'gpt': ['lib/comm', 'lib/config', 'lib/cost', 'lib/data', 'lib/device', 'lib/kernels', 'lib/model'],
    'gpt/cost': ['gpt', 'lib/cost', 'lib/device', 'lib/kernels', 'lib/model'],
    'gpt/cpu/loops': ['gpt', 'lib/kernels/cpu'],
    'gpt/cpu/matmul': ['gpt/cpu/loops', 'lib/kernels/cpu'],
    'gpt/cpu/attention': ['gpt', 'lib/kernels/cpu'],
    'gpt/cpu': ['gpt', 'gpt/cpu/attention', 'gpt/cpu/loops', 'gpt/cpu/matmul', 'lib/device/cpu', 'lib/kernels/cpu'],
    'gpt/cuda': ['gpt', 'lib/config', 'lib/device/cuda', 'lib/kernels', 'lib/kernels/cuda', 'lib/model'],
    'gpt/cuda/attention': ['gpt/cuda'],
    'vision': ['lib/comm', 'lib/config', 'lib/cost', 'lib/device', 'lib/kernels', 'lib/model'],
    'vision/cost': ['lib/cost', 'lib/device', 'lib/kernels', 'lib/model', 'vision'],
    'vision/cpu/loops': ['lib/kernels/cpu'],
    'vision/cpu': ['lib/device/cpu', 'lib/kernels', 'lib/kernels/cpu', 'vision', 'vision/cpu/loops'],
    'vision/cuda': ['lib/kernels/cuda', 'vision'],
    'schedules/mesh': ['lib/comm'],
    'schedules/plan': [],
    'schedules/config': ['gpt', 'lib/config', 'lib/data', 'lib/device', 'lib/model', 'schedules/mesh', 'schedules/plan', 'vision'],  # gpt and vision: families.c alone
    'schedules/step': ['lib/comm', 'lib/device', 'lib/record', 'schedules/mesh'],
    'schedules/data_parallel': ['lib/comm', 'lib/model', 'schedules/config', 'schedules/plan', 'schedules/step'],
    'schedules/checkpoint': ['lib/comm', 'lib/config', 'lib/device', 'lib/model', 'lib/tensors', 'schedules/config', 'schedules/data_parallel'],
    'schedules/pipeline': ['lib/device', 'lib/model', 'schedules/config', 'schedules/data_parallel', 'schedules/mesh', 'schedules/plan',
                           'schedules/step'],
    'schedules/run': ['lib/comm', 'lib/config', 'lib/data', 'lib/device', 'lib/model', 'lib/record', 'schedules/checkpoint', 'schedules/config',
                      'schedules/data_parallel', 'schedules/pipeline', 'schedules/plan', 'schedules/step'],
    'predict': ['lib/comm', 'lib/config', 'lib/cost', 'lib/device', 'lib/model', 'lib/sim', 'schedules/checkpoint', 'schedules/config',
                          'schedules/data_parallel', 'schedules/pipeline', 'schedules/run', 'schedules/step'],
    'predict/search': ['lib/config', 'lib/device', 'lib/record', 'lib/sim', 'schedules/config', 'schedules/data_parallel', 'schedules/mesh',
                         'schedules/plan', 'predict', 'schedules/run'],
    'cli/text': ['lib/config', 'schedules/config'],
    'cli/words': ['cli/text', 'lib/config', 'lib/model', 'schedules/config'],
    'cli/records': ['cli/text', 'lib/config', 'lib/record', 'schedules/config', 'schedules/run'],
    'cli/report': ['cli/records', 'cli/text', 'lib/config', 'lib/record'],
    'cli/predict': ['cli/records', 'cli/text', 'lib/config', 'lib/device', 'lib/record', 'lib/sim', 'schedules/checkpoint', 'schedules/config', 'schedules/plan',
                    'predict', 'schedules/run', 'schedules/step'],
    'cli/run': ['cli/records', 'cli/text', 'lib/comm', 'lib/config', 'lib/device', 'lib/launch', 'lib/record', 'lib/rendezvous', 'lib/slurm',
                'schedules/config', 'predict', 'schedules/run'],
    'cli/plan': ['cli/run', 'cli/text', 'lib/config', 'lib/record', 'schedules/config', 'schedules/plan', 'predict',
                 'schedules/run', 'predict/search'],
    'cli/commands': ['cli/plan', 'cli/predict', 'cli/records', 'cli/report', 'cli/run', 'cli/text', 'cli/words', 'lib/comm', 'lib/config', 'lib/device',
                     'lib/launch', 'lib/record', 'lib/slurm', 'schedules/checkpoint', 'schedules/config', 'schedules/plan', 'predict', 'schedules/run'],
    'cli/generate': ['cli/text', 'lib/config', 'lib/record', 'lib/sim', 'schedules/config', 'predict'],
    'cli': ['cli/commands', 'cli/generate', 'cli/run', 'cli/text', 'lib/record'],
}


def files(root, parts, suffixes):
    for part in parts:
        for folder, folders, names in os.walk(os.path.join(root, part)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(folder, name), root)


def module_of(path):
    return os.path.splitext(path)[0]


def includes(root, path):
    """The project's files that `path` includes."""
    with open(os.path.join(root, path), encoding='utf-8') as file:
        names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.MULTILINE)
    for name in names:
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        yield beside if os.path.exists(os.path.join(root, beside)) else name


def objects(root, build):
    """{object file: module} of what was compiled; the tests with an emulated GPU compile the cuda files, too."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        commands = json.load(file)
    compiled = {}
    for command in commands:
        source = os.path.relpath(os.path.join(build, command['file']), root)
        if source.endswith('.cu.cpp'):
            source = os.path.basename(source)[:-len('.cpp')].replace('+', '/')
        output = os.path.join(build, command.get('output', ''))
        if source.split(os.sep)[0] in PARTS and os.path.isfile(output):
            compiled[output] = module_of(source)
    return compiled


def calls(modules):
    """(user, used, symbol) for each symbol that an object file of one module needs and one of another module defines."""
    printed = subprocess.run(['nm', '-A', '-P', '-g', *modules], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
    defined, needed = {}, []
    for line in printed.splitlines():
        output, symbol, kind = re.match(r'(.*): (\S+) (\S)', line).groups()
        if kind in 'Uwv':
            needed.append((modules[output], symbol))
        else:
            defined.setdefault(symbol, set()).add(modules[output])
    if not defined:
        raise RuntimeError('nm finds no symbol: object files of link-time optimisation?')
    for user, symbol in needed:
        for used in defined.get(symbol, ()):
            yield user, used, symbol


def uses(root, modules):
    """{user: {used: how}}"""
    graph = {module_of(path): {} for path in files(root, PARTS, CODE)}
    for path in files(root, PARTS, CODE + HEADERS):
        for included in includes(root, path):
            user, used = module_of(path), module_of(included)
            if user in graph and used in graph:
                graph[user].setdefault(used, f'includes {included}')
    for user, used, symbol in calls(modules):
        graph[user].setdefault(used, f'uses {symbol}')
    for user, used in graph.items():
        used.pop(user, None)
    return graph


def path_between(graph, start, end):
    """The nodes of a shortest path from start to end, both named; None where there is none."""
    came_from, frontier = {start: None}, [start]
    while frontier and end not in came_from:
        following = []
        for node in frontier:
            for used in sorted(graph.get(node, ())):
                if used not in came_from:
                    came_from[used] = node
                    following.append(used)
        frontier = following
    if end not in came_from:
        return None
    path = [end]
    while came_from[path[-1]] is not None:
        path.append(came_from[path[-1]])
    return path[::-1]


def shortest_circles(graph):
    """For each edge that is part of a circle, a shortest circle with it; each circle once."""
    found = set()
    for user in sorted(graph):
        for used in sorted(graph[user]):
            path = path_between(graph, used, user)
            if path is not None:
                first = path.index(min(path))
                circle = tuple(path[first:] + path[:first])
                if circle not in found:
                    found.add(circle)
                    yield '; '.join(f'{node} {graph[node][after]}' for node, after in zip(circle, circle[1:] + circle[:1]))


def check_circles(root, build):
    modules = objects(root, build)
    if not modules:
        yield f'{build} has no object files of this source'
        return
    yield from shortest_circles(uses(root, modules))
    headers = {path: {included: f'includes {included}' for included in includes(root, path)} for path in files(root, PARTS, HEADERS)}
    yield from shortest_circles(headers)


def check_folders(root):
    for path in files(root, PARTS, CODE + HEADERS):
        folder = os.path.dirname(path)
        for included in includes(root, path):
            other = os.path.dirname(included)
            if other.split('/')[0] in PARTS and other not in (folder, 'lib/base', *ALLOWED.get(folder, ())):
                yield f'{path}: {folder} may not include {included}'
    before = set()
    for folder, others in ALLOWED.items():
        if not os.path.isdir(os.path.join(root, folder)):
            yield f'ALLOWED names the folder {folder}, which does not exist'
        for other in others:
            if other not in before:
                yield f'ALLOWED lets {folder} include {other}, which is not listed before it'
        before.add(folder)
    for folder in sorted({os.path.dirname(path) for path in files(root, PARTS, CODE + HEADERS)} - before):
        yield f'ALLOWED does not name the folder {folder}'


def is_described(root, folder):
    """A README.md of 3 to 10 lines, or a comment of 3 lines or more at the top of the header that is called as its folder."""
    readme = os.path.join(root, folder, 'README.md')
    if os.path.exists(readme):
        with open(readme, encoding='utf-8') as file:
            return 3 <= len(file.readlines()) <= 10
    header = os.path.join(root, folder, os.path.basename(folder) + '.h')
    if os.path.exists(header):
        with open(header, encoding='utf-8') as file:
            comment = re.match(r'/\*.*?\*/', file.read(), re.DOTALL)
        return comment is not None and comment.group().count('\n') >= 2
    return False


def check_described(root):
    folders = sorted({os.path.dirname(path) for path in files(root, PARTS, CODE + HEADERS)} | set(PARTS) | {'test'})
    for folder in folders:
        if not is_described(root, folder):
            yield f'{folder} has neither a README.md of 3 to 10 lines nor a header of its name with an opening comment'


def main(check, *arguments):
    checks = {'circles': check_circles, 'folders': check_folders, 'described': check_described}
    for offence in checks[check](*arguments):
        print(offence)


if __name__ == '__main__':
    main(*sys.argv[1:])
