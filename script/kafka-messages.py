#!/usr/bin/env python3
"""Generates the tables and structs of Kafka's messages from the published definitions.

usage: script/kafka-messages.py [--check] DIR
  DIR       Apache Kafka's message definitions (FetchRequest.json and so on)
  --check   writes nothing; fails, naming the file, where the committed ones differ

Written are include/fleetlog/kafka_{apis,session,data,group,admin}.h and src/wire/kafka/table_*.c.  They are committed:
building needs neither Python nor the definitions.  Whatever the C code relies on is checked here, and refused rather
than guessed: unknown types, text defaults, cycles, tags that come and go, arrays of elements without a byte.

To speak another API, add a line to APIS; to raise a range, change one.  The facts behind the ranges are in
docs/design/kafka.md.
"""

import json
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOREVER = 126

# name, file group, lowest announced version, served versions from and to.  Why each: docs/design/kafka.md.
APIS = [
    ("Produce", "data", 0, 3, 11),
    ("Fetch", "data", 4, 4, 17),
    ("ListOffsets", "data", 1, 1, 10),
    ("Metadata", "session", 0, 0, 12),
    ("OffsetCommit", "group", 2, 2, 9),
    ("OffsetFetch", "group", 1, 1, 9),
    ("FindCoordinator", "group", 0, 0, 6),
    ("JoinGroup", "group", 0, 0, 9),
    ("Heartbeat", "group", 0, 0, 4),
    ("LeaveGroup", "group", 0, 0, 5),
    ("SyncGroup", "group", 0, 0, 5),
    ("DescribeGroups", "group", 0, 0, 6),
    ("ListGroups", "group", 0, 0, 5),
    ("SaslHandshake", "session", 0, 0, 1),
    ("ApiVersions", "session", 0, 0, 4),
    ("CreateTopics", "admin", 2, 2, 7),
    ("DeleteTopics", "admin", 1, 1, 6),
    ("DeleteRecords", "data", 0, 0, 2),
    ("InitProducerId", "data", 0, 0, 5),
    ("OffsetForLeaderEpoch", "data", 2, 2, 4),
    ("DescribeAcls", "admin", 1, 1, 3),
    ("CreateAcls", "admin", 1, 1, 3),
    ("DeleteAcls", "admin", 1, 1, 3),
    ("DescribeConfigs", "admin", 1, 1, 4),
    ("AlterConfigs", "admin", 0, 0, 2),
    ("DescribeLogDirs", "admin", 1, 1, 4),
    ("SaslAuthenticate", "session", 0, 0, 2),
    ("CreatePartitions", "admin", 0, 0, 3),
    ("DeleteGroups", "group", 0, 0, 2),
    ("IncrementalAlterConfigs", "admin", 0, 0, 1),
    ("ListPartitionReassignments", "admin", 0, 0, 0),
    ("OffsetDelete", "group", 0, 0, 0),
    ("DescribeCluster", "session", 0, 0, 1),
    ("DescribeTopicPartitions", "session", 0, 0, 0),
]

# Messages inside the bytes that members of a group hand each other; no API of their own.
EMBEDDED = [("ConsumerProtocolSubscription", "group"), ("ConsumerProtocolAssignment", "group")]

GROUPS = {
    "session": "what opens a connection: versions, metadata, log-in",
    "data": "records: produce, fetch, offsets, producer ids",
    "group": "consumer groups and their offsets",
    "admin": "topics, configurations, access lists",
}

KINDS = {"bool": ("FL_KAFKA_BOOL", "bool"), "int8": ("FL_KAFKA_INT8", "int8_t"), "int16": ("FL_KAFKA_INT16", "int16_t"),
         "int32": ("FL_KAFKA_INT32", "int32_t"), "int64": ("FL_KAFKA_INT64", "int64_t"),
         "uuid": ("FL_KAFKA_UUID", "FlKafkaUuid"), "string": ("FL_KAFKA_STRING", "FlKafkaBytes"),
         "bytes": ("FL_KAFKA_BYTES", "FlKafkaBytes"), "records": ("FL_KAFKA_RECORDS", "FlKafkaRecords")}
RANGES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
RESERVED = set("auto break case char const continue default do double else enum extern float for goto if inline int long "
               "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile "
               "while bool true false NULL".split())


class Refused(Exception):
    pass


def demand(condition, what):
    if not condition:
        raise Refused(what)


def snake(name):
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", name).lower()


def versions(text):
    """The pair (from, to) of a range of versions; never is (127, -1)."""
    if text is None or text == "none":
        return (127, -1)
    if text.endswith("+"):
        return (int(text[:-1]), FOREVER)
    first, _, last = text.partition("-")
    return (int(first), int(last or first))


def words(pair):
    """The same for a comment."""
    if pair[1] == FOREVER:
        return "%d+" % pair[0]
    return str(pair[0]) if pair[0] == pair[1] else "%d-%d" % pair


def default_of(field, kind, is_array):
    """The table's number: the default itself, or 1 where null is the default."""
    text = field.get("default")
    where = "default of %s: %r" % (field["name"], text)
    if is_array or kind in ("string", "bytes", "records", "uuid") or kind not in KINDS:
        demand(text in (None, "", "null"), where)
        demand(text != "null" or "nullableVersions" in field, where)
        return 1 if text == "null" else 0
    if kind == "bool":
        demand(text in (None, "true", "false", True, False), where)
        return 1 if text in ("true", True) else 0
    number = int(str(text), 0) if text not in (None, "") else 0
    demand(-(1 << (RANGES[kind] - 1)) <= number < 1 << (RANGES[kind] - 1), where)
    return number


class Field:
    def __init__(self, definition, structs, message):
        self.published = definition["name"]
        self.member = snake(self.published)
        demand(self.member not in RESERVED, "%s is a word of C" % self.member)
        kind = definition["type"]
        self.is_array = kind.startswith("[]")
        kind = kind[2:] if self.is_array else kind
        self.versions = versions(definition["versions"])
        self.nullable = versions(definition.get("nullableVersions"))
        self.tag = -1
        if "tag" in definition:
            self.tag = definition["tag"]
            demand(0 <= self.tag < 32, "tag %d" % self.tag)
            demand(definition["taggedVersions"] == definition["versions"], "%s is not always tagged" % self.published)
            demand(self.versions[0] >= message.flexible, "%s is tagged where nothing is flexible" % self.published)
        demand("flexibleVersions" not in definition, "%s has flexible versions of its own" % self.published)
        self.default = default_of(definition, kind, self.is_array)
        self.struct = None
        if kind not in KINDS:
            demand(kind[0].isupper(), "type %s" % kind)
            self.struct = structs[kind] if kind in structs else message.add_struct(kind, definition["fields"], structs)
            # The element of an array must have a byte in every version, else its count costs the sender nothing.
            for version in range(message.first, message.last + 1):
                if self.is_array and self.versions[0] <= version <= self.versions[1]:
                    demand(version >= message.flexible or self.struct.has_field(version), "empty %s" % kind)
        self.kind = KINDS[kind][0] if kind in KINDS else "FL_KAFKA_STRUCT"
        self.c_type = KINDS[kind][1] if kind in KINDS else self.struct.c_type
        self.nullable_struct = self.struct is not None and not self.is_array and self.nullable[1] >= 0

    def declaration(self):
        notes = [words(self.versions)]
        if self.nullable[1] >= 0:
            notes.append("null" if self.nullable[0] <= self.versions[0] else "null " + words(self.nullable))
        if self.tag >= 0:
            notes.append("tag %d" % self.tag)
        if self.default not in (0, 1) or (self.default == 1 and self.c_type not in ("FlKafkaBytes",)
                                          and not self.is_array and self.struct is None):
            notes.append("default %d" % self.default)
        elif self.default == 1:
            notes.append("default null")
        c_type = "FL_KAFKA_ARRAY(%s)" % self.c_type if self.is_array else self.c_type
        lines = []
        if self.nullable_struct:
            lines.append("\tbool has_%s;" % self.member)
        lines.append("\t%s %s; /* %s */" % (c_type, self.member, ", ".join(notes)))
        return lines

    def row(self, owner):
        present = "offsetof(%s, has_%s)" % (owner, self.member) if self.nullable_struct else "FL_KAFKA_NO_PRESENT"
        value = str(self.default) if self.default >= -0x80000000 else "INT64_MIN"
        if self.default == -0x80000000:
            value = "INT32_MIN"
        elif abs(self.default) > 0x7fffffff:
            value = "INT64_C(%d)" % self.default
        null = self.nullable if self.nullable[1] >= 0 else (127, -1)
        return "\tFL_KAFKA_FIELD(%s, %s, \"%s\", %s, %s, %s, %s,\n\t\t\t\t   %d, %d, %d, %d, %s, %s)," % (
            owner, self.member, self.published, self.kind, "true" if self.is_array else "false",
            "&fl_kafka_struct_%s" % self.struct.c_name if self.struct else "NULL", present,
            self.versions[0], self.versions[1], null[0], null[1],
            self.tag if self.tag >= 0 else "FL_KAFKA_NO_TAG", value)


class Struct:
    """One struct of C: a message, or what its arrays hold."""

    def __init__(self, published, c_type, definitions, structs, message):
        self.published = published
        self.c_type = c_type
        self.c_name = snake(c_type[len("FlKafka"):])
        self.is_root = published == message.published
        fields = [Field(d, structs, message) for d in definitions]
        members = [f.member for f in fields]
        demand(len(set(members)) == len(members), "%s has a member twice" % c_type)
        self.fields = [f for f in fields if f.tag < 0] + sorted((f for f in fields if f.tag >= 0), key=lambda f: f.tag)

    def has_field(self, version):
        return any(f.tag < 0 and f.versions[0] <= version <= f.versions[1] for f in self.fields)

    def depth(self):
        return 1 + max([f.struct.depth() for f in self.fields if f.struct] or [0])

    def declaration(self):
        lines = ["typedef struct %s" % self.c_type, "{"]
        for field in self.fields:
            lines += field.declaration()
        if not self.fields:
            lines.append("\tchar nothing; /* the message is empty in all versions */")
        lines += ["} %s;" % self.c_type]
        return lines

    def table(self):
        name = "fl_kafka_struct_%s" % self.c_name
        storage = "static " if self.is_root else ""
        if not self.fields:
            return ["%sconst FlKafkaStruct %s = {\"%s\", NULL, 0, sizeof(%s)};" % (storage, name, self.published, self.c_type)]
        lines = ["static const FlKafkaField %s_fields[] = {" % self.c_name]
        lines += [f.row(self.c_type) for f in self.fields]
        lines += ["};", "%sconst FlKafkaStruct %s = {\"%s\", FL_KAFKA_FIELDS(%s_fields), sizeof(%s)};" % (
            storage, name, self.published, self.c_name, self.c_type)]
        if not self.is_root:
            lines.append("_Static_assert(sizeof(%s) <= FL_KAFKA_STRUCT_MAX, \"an element fits the encoder\");" % self.c_type)
        return lines


class Message:
    def __init__(self, api, published, path, taken=()):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"^\s*//.*$", "", file.read(), flags=re.M)
        definition = json.loads(text)
        demand(definition["name"] == published, "%s names itself %s" % (path, definition["name"]))
        self.api = api
        self.published = published
        self.key = definition.get("apiKey")
        self.first, self.last = versions(definition["validVersions"])
        flexible = versions(definition["flexibleVersions"])
        self.flexible = flexible[0] if flexible[1] == FOREVER else 127
        self.taken = taken
        self.structs = []
        structs = {}
        for common in definition.get("commonStructs", []):
            self.add_struct(common["name"], common["fields"], structs)
        self.root = self.add_struct(published, definition["fields"], structs)
        demand(self.root.depth() <= 6, "%s is nested too deeply" % published)
        self.c_name = self.root.c_name

    def add_struct(self, name, definitions, structs):
        demand(name not in structs, "struct %s twice" % name)
        c_type = "FlKafka" + (name if name.startswith(self.api) else self.api + name)
        if c_type in self.taken:
            c_type = "FlKafka" + self.published + name
        structs[name] = None  # a cycle would find it so, and fail
        struct = Struct(name, c_type, definitions, structs, self)
        structs[name] = struct
        self.structs.append(struct)
        return struct

    def table(self):
        return ["const FlKafkaMessage fl_kafka_%s = {&fl_kafka_struct_%s, %d, %d, %s};" % (
            self.c_name, self.c_name, self.first, self.last,
            "FL_KAFKA_NEVER" if self.flexible == 127 else self.flexible)]


def head(name, what, more):
    return ["/*-------------------------------------------------------------------------", " *", " * " + name, " *\t  " + what,
            " *"] + [" * " + line if line else " *" for line in more] + [
            " *", " * Written by script/kafka-messages.py; change that, not this.", " *",
            " *-------------------------------------------------------------------------", " */", "/* clang-format off */"]


def header_file(group, messages):
    guard = "FLEETLOG_KAFKA_%s_H" % group.upper()
    lines = head("kafka_%s.h" % group, "Kafka's messages: %s." % GROUPS[group],
                 ["How to use them is told in kafka_codec.h.  A comment gives the versions that have",
                  "the field, where it may be null, its tag, and a default that is not zero or empty."])
    lines += ["#ifndef " + guard, "#define " + guard, "", "#include \"fleetlog/kafka_codec.h\""]
    for message in messages:
        note = "" if message.flexible == 127 else ", flexible from %d" % message.flexible
        lines += ["", "/* ---------- %s, versions %s%s ---------- */" % (
            message.published, words((message.first, message.last)), note)]
        for struct in message.structs:
            lines += [""] + struct.declaration()
        lines += [""]
        lines += ["FL_KAFKA_DECLARE_STRUCT(%s, %s)" % (s.c_name, s.c_type) for s in message.structs if not s.is_root]
        lines += ["FL_KAFKA_DECLARE_MESSAGE(%s, %s)" % (message.c_name, message.root.c_type)]
    return lines + ["", "#endif /* %s */" % guard]


def table_file(name, group, messages):
    lines = head("table_%s.c" % name, "Tables of Kafka's messages: %s." % GROUPS[group],
                 ["Read by decode.c and encode.c, by nobody else."])
    lines += ["#include \"fleetlog/kafka_%s.h\"" % group, "", "#include \"kafka_private.h\""]
    for message in messages:
        lines += ["", "/* ---------- %s ---------- */" % message.published]
        for struct in message.structs:
            lines += [""] + struct.table()
        lines += [""] + message.table()
    return lines


def apis_header(apis):
    lines = head("kafka_apis.h", "The APIs of Kafka that the codec speaks: their numbers.",
                 ["Their ranges and messages are in fl_kafka_apis, by ascending key."])
    lines += ["#ifndef FLEETLOG_KAFKA_APIS_H", "#define FLEETLOG_KAFKA_APIS_H", "", "#include \"fleetlog/kafka_codec.h\"", "",
              "typedef enum FlKafkaApiKey", "{"]
    lines += ["\tFL_KAFKA_%s = %d%s" % (snake(a[0]).upper(), a[1], "," if a is not apis[-1] else "") for a in apis]
    return lines + ["} FlKafkaApiKey;", "", "#define FL_KAFKA_N_APIS %d" % len(apis), "",
                    "extern const FlKafkaApi fl_kafka_apis[FL_KAFKA_N_APIS];", "", "#endif /* FLEETLOG_KAFKA_APIS_H */"]


def apis_table(apis):
    lines = head("table_apis.c", "The APIs of Kafka that the codec speaks: ranges and messages.", ["Read by frame.c and by the Kafka door."])
    lines += ["#include \"fleetlog/kafka_apis.h\""]
    lines += ["#include \"fleetlog/kafka_%s.h\"" % group for group in sorted(GROUPS)]
    lines += ["", "const FlKafkaApi fl_kafka_apis[FL_KAFKA_N_APIS] = {"]
    lines += ["\t{\"%s\", &fl_kafka_%s_request, &fl_kafka_%s_response, %d, %d, %d, %d}," % (
        name, snake(name), snake(name), key, announced, first, last) for name, key, announced, first, last in apis]
    return lines + ["};"]


def generate(folder):
    """All files: path below the top of the tree to its lines."""
    messages = {group: [] for group in GROUPS}
    apis, names = [], set()

    for name, group, announced, first, last in APIS:
        pair = [Message(name, name + "Request", os.path.join(folder, name + "Request.json"))]
        pair.append(Message(name, name + "Response", os.path.join(folder, name + "Response.json"),
                            {s.c_type for s in pair[0].structs}))
        demand(pair[0].key == pair[1].key, "%s has two keys" % name)
        for message in pair:
            demand(message.first <= first <= last <= message.last, "%s has versions %d-%d" % (name, message.first, message.last))
        demand(pair[0].flexible == pair[1].flexible, "%s is flexible from different versions" % name)
        messages[group] += pair
        apis.append((name, pair[0].key, announced, first, last))
    for name, group in EMBEDDED:
        messages[group].append(Message(name, name, os.path.join(folder, name + ".json")))
    for group in messages.values():
        for message in group:
            for struct in message.structs:
                demand(struct.c_type not in names, "%s is declared twice" % struct.c_type)
                names.add(struct.c_type)

    apis.sort(key=lambda a: a[1])
    files = {"include/fleetlog/kafka_apis.h": apis_header(apis), "src/wire/kafka/table_apis.c": apis_table(apis)}
    for group, members in messages.items():
        files["include/fleetlog/kafka_%s.h" % group] = header_file(group, members)
        files["src/wire/kafka/table_%s.c" % group] = table_file(group, group, members)
    for path, lines in files.items():
        demand(len(lines) <= 1000, "%s has %d lines" % (path, len(lines)))
    return files


def main(arguments):
    check = "--check" in arguments
    folders = [a for a in arguments if not a.startswith("-")]
    if len(folders) != 1 or any(a.startswith("-") and a != "--check" for a in arguments):
        sys.exit(__doc__)
    try:
        files = generate(folders[0])
    except (Refused, KeyError, ValueError, OSError) as error:
        sys.exit("kafka-messages.py: %s: %s" % (type(error).__name__, error))
    stale = []
    for path, lines in sorted(files.items()):
        text = "\n".join(lines) + "\n"
        full = os.path.join(TOP, path)
        if check:
            if not os.path.exists(full) or open(full, encoding="utf-8").read() != text:
                stale.append(path)
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
    if stale:
        sys.exit("kafka-messages.py: not as generated: " + " ".join(stale))


if __name__ == "__main__":
    main(sys.argv[1:])
