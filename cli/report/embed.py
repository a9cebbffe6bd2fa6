"""Make a C file of texts: embed.py OUT NAME=FILE... A file that is not there is an empty text.

A text is an array of bytes, because a string in C may have no more than 65,535."""
import os
import sys

with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write('#include "cli/report/report.h"\n\n')
    for argument in sys.argv[2:]:
        name, _, path = argument.partition("=")
        content = open(path, "rb").read() if path and os.path.exists(path) else b""
        lines = [", ".join(map(str, content[i:i + 32])) for i in range(0, len(content), 32)] + ["0"]
        out.write(f"const char {name}[] = {{\n" + ",\n".join(lines) + "};\n")
