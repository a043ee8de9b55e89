#!/usr/bin/env python3
"""An independent reading of Kafka's message definitions, to hold the C codec against.

usage: test/kafka_oracle.py [--seed N] [--samples N] [--only FILE] DIR

Prints one line a sample: message, version, its bytes in hexadecimal, and the FNV-1a hash of its values in text.  The
bytes come from interpreting the JSON definitions in DIR; nothing is shared with script/kafka-messages.py or with the C
code, so that a mistake has to be made twice to go unseen.  test/unit/test_kafka_oracle.c decodes each line, compares
the hash with that of its own text of the values, encodes again, and compares the bytes.

--only FILE restricts the messages to the APIs that this C header lists; test/golden/kafka-messages.txt is the output
with it and the default seed.
"""

import argparse
import glob
import json
import os
import random
import re
import struct

INTEGERS = {"int8": ("b", 8), "int16": ("h", 16), "int32": ("i", 32), "int64": ("q", 64)}


def within(text, version):
    if not text or text == "none":
        return False
    if text[-1] == "+":
        return version >= int(text[:-1])
    ends = [int(t) for t in text.split("-")]
    return ends[0] <= version <= ends[-1]


def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


class Sampler:
    """Random values for one message in one version, their bytes, and their text."""

    def __init__(self, rng, version, flexible, structs):
        self.rng, self.version, self.flexible, self.structs = rng, version, flexible, structs

    def length(self, n, form):
        """n None is null."""
        if self.flexible:
            return uvarint(0 if n is None else n + 1)
        return struct.pack(form, -1 if n is None else n)

    def chance(self, one_in):
        return self.rng.randrange(one_in) == 0

    def scalar(self, kind):
        """Bytes and text."""
        rng = self.rng
        if kind == "bool":
            value = rng.randrange(2)
            return bytes([value]), ("false", "true")[value]
        if kind in INTEGERS:
            form, bits = INTEGERS[kind]
            value = rng.choice([0, 1, -1, 7, 2 ** (bits - 1) - 1, -2 ** (bits - 1), rng.getrandbits(bits - 1)])
            return struct.pack(">" + form, value), str(value)
        if kind == "uuid":
            value = bytes(rng.getrandbits(8) for _ in range(16)) if not self.chance(4) else bytes(16)
            return value, value.hex()
        size = rng.choice([0, 1, 2, 3, 5]) if not self.chance(25) else rng.choice([127, 128, 200])
        if kind == "string":
            value = "".join(rng.choice("abcXYZ.-_é") for _ in range(size)).encode()
            return self.length(len(value), ">h") + value, '"' + value.hex() + '"'
        if kind in ("bytes", "records"):
            value = bytes(rng.getrandbits(8) for _ in range(size))
            return self.length(size, ">i") + value, '"' + value.hex() + '"'
        raise ValueError(kind)

    def field(self, definition, one_in_null=4):
        kind, fields = definition["type"], definition.get("fields")
        nullable = within(definition.get("nullableVersions"), self.version)
        null = nullable and self.chance(one_in_null)
        if kind.startswith("[]"):
            if null:
                return self.length(None, ">i"), "null"
            kind = kind[2:]
            n = self.rng.choice([0, 1, 1, 2, 3]) if kind[0].islower() or not self.chance(6) else 0
            if kind in INTEGERS and self.chance(30):
                n = 130
            parts = [self.value(kind, fields) for _ in range(n)]
            return self.length(n, ">i") + b"".join(p[0] for p in parts), "[" + ",".join(p[1] for p in parts) + "]"
        if kind[0].isupper():
            if null:
                return b"\xff", "null"
            data, text = self.value(kind, fields)
            return (b"\x01" if nullable else b"") + data, text
        if null:
            return self.length(None, ">h" if kind == "string" else ">i"), "null"
        return self.scalar(kind)

    def value(self, kind, fields):
        return self.record(fields or self.structs[kind]) if kind[0].isupper() else self.scalar(kind)

    def default_text(self, definition):
        """How the default of a field that is absent from the tagged section reads."""
        kind, default = definition["type"], definition.get("default")
        if kind.startswith("[]"):
            return "null" if default == "null" else "[]"
        if kind[0].isupper():
            if default == "null":
                return "null"
            fields = [f for f in self.sorted(definition["fields"]) if within(f["versions"], self.version)]
            return "{" + ",".join(f["name"] + ":" + self.default_text(f) for f in fields) + "}"
        if kind == "bool":
            return "true" if str(default).lower() == "true" else "false"
        if kind in INTEGERS:
            return str(int(str(default or 0), 0))
        if kind == "uuid":
            return "00" * 16
        return "null" if default == "null" else '""'

    @staticmethod
    def sorted(fields):
        return [f for f in fields if "tag" not in f] + sorted((f for f in fields if "tag" in f), key=lambda f: f["tag"])

    def record(self, fields):
        data, text, tags = b"", [], []
        for f in self.sorted(fields):
            if not within(f["versions"], self.version):
                continue
            if "tag" not in f:
                part = self.field(f)
                data += part[0]
            elif self.chance(2):
                part = (b"", self.default_text(f))
            else:
                part = self.field(f)
                # A tagged field that happens to hold its default is not written.
                if part[1] != self.default_text(f):
                    tags.append(uvarint(f["tag"]) + uvarint(len(part[0])) + part[0])
            text.append(f["name"] + ":" + part[1])
        if self.flexible:
            data += uvarint(len(tags)) + b"".join(tags)
        return data, "{" + ",".join(text) + "}"


def fnv(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return "%016x" % value


def main():
    options = argparse.ArgumentParser(usage=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--samples", type=int, default=1)
    options.add_argument("--only")
    options.add_argument("dir")
    options = options.parse_args()

    wanted = None
    if options.only:
        with open(options.only, encoding="utf-8") as file:
            wanted = {w.replace("_", "").lower() for w in re.findall(r"^\tFL_KAFKA_(\w+) = \d+", file.read(), re.M)}
    for path in sorted(glob.glob(os.path.join(options.dir, "*.json"))):
        name = os.path.basename(path)[:-5]
        if name in ("RequestHeader", "ResponseHeader"):
            continue
        if wanted is not None and not name.startswith("Consumer") and re.sub("(Request|Response)$", "", name).lower() not in wanted:
            continue
        with open(path, encoding="utf-8") as file:
            definition = json.loads("\n".join(line for line in file.read().split("\n") if not line.lstrip().startswith("//")))
        structs = {c["name"]: c["fields"] for c in definition.get("commonStructs", [])}
        ends = [int(t) for t in definition["validVersions"].split("-")]
        for version in range(ends[0], ends[-1] + 1):
            for sample in range(options.samples):
                rng = random.Random("%s %d %d %d" % (name, version, options.seed, sample))
                try:
                    data, text = Sampler(rng, version, within(definition["flexibleVersions"], version), structs).record(definition["fields"])
                except ValueError:
                    break  # a type that only messages outside of our list have
                print(name, version, data.hex() or "-", fnv(text))


if __name__ == "__main__":
    main()
