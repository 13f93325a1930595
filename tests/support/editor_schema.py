#!/usr/bin/env python3
"""editor_schema.py BUILD - what conf/einmal.schema.json says of files, held against what einmal says of them.

An editor that marks what einmal accepts would teach its user to ignore it, so whatever the program accepts must be valid:
every example, every file that comes with it, what `check --print` writes, and each text that the unit tests of conf/ read
(EINMAL_KEEP_CONF). The texts that they see refused must be invalid, but for the reasons that no schema can tell: UNSEEN.

Ends with `N passed, N failed`. Needs Debian's python3-yaml and python3-jsonschema.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as why:
    print(f"skipped: the schema for editors: {why} (Debian: python3-yaml, python3-jsonschema)")
    print("0 passed, 0 failed")
    sys.exit(0)

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Messages of einmal whose reason is not in one value alone, or is gone when YAML has been read. Each excuses some text.
UNSEEN = [
    # the text itself, and spellings that are one value to YAML
    r"anchors are not allowed", r"tags are not allowed", r"expected true or false, not 'True'$",
    r"a number from .*, not '(010|\+8|0x10)'$",
    # ranges of what has a unit
    r"expected a size from", r"size such as .*, not '99999999TiB'$",
    # one setting and another
    r"is taken \(first", r"no upstream is named", r"there is no default_upstream", r"is listed twice", r"only a unix socket has",
    r"match\.path has no", r"needs a fingerprint", r"only with fingerprint: json$", r"in one list only", r"in the other list as well",
    r"belong together$", r"only for an url", r"needs a 'probe'", r"asks nobody without", r"set admin\.token_file",
    r"there is no admin\.address", r"is the address of", r"with or without Retry-After",
    # what stands within a text
    r"occurs twice$", r"belongs to the connection", r"must be written as %XX$", r"two hexadecimal digits$", r"no segment may be",
    r"# cannot be sent$",
]


class Loader(yaml.SafeLoader):
    """The core schema of YAML 1.2, by which language servers read: `yes` is a word, 0660 the number 660."""

    def construct_number(self, node):
        text = node.value
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        return int(text[2:] if base != 10 else text, base)

    def construct_names(self, node):
        names = [key.value for key, _ in node.value]
        if not all(isinstance(name, str) for name in names):
            raise yaml.constructor.ConstructorError(None, None, "a key that is no name", node.start_mark)
        if len(set(names)) < len(names):
            raise yaml.constructor.ConstructorError(None, None, "a key twice", node.start_mark)
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.0123456789"),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))
Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_number)
Loader.add_constructor("tag:yaml.org,2002:map", Loader.construct_names)

passed = failed = 0


def check(name, findings):
    global passed, failed
    if findings:
        failed += 1
        print(f"{name}:\n  " + "\n  ".join(findings))
    else:
        passed += 1


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


schema = json.loads(read("conf", "einmal.schema.json"))
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)


def wrong(value):
    return [f"{'.'.join(map(str, error.absolute_path)) or 'the whole'}: {error.message}" for error in validator.iter_errors(value)]


def wrong_text(text):
    """What the schema has against a text; that it is no YAML counts, too: an editor marks that as well."""
    try:
        return wrong(yaml.load(text, Loader))  # noqa: S506: a SafeLoader
    except (yaml.YAMLError, ValueError) as error:
        return [f"no YAML: {error}"]


def check_files(einmal):
    examples = re.findall(r"^```yaml\n(.*?)^```$", read("README.md"), re.M | re.S)
    check("README.md has examples", [] if examples else ["none"])
    for number, text in enumerate(examples, 1):
        check(f"README.md, YAML example {number}", wrong_text(text))
    files = ["conf/minimal.yaml", "conf/einmal.yaml"]
    files += sorted(os.path.relpath(name, ROOT) for name in glob.glob(os.path.join(ROOT, "docker", "**", "einmal.yaml"), recursive=True))
    check("files of docker/ are found", [] if len(files) > 3 else files)
    for name in files:
        check(name, wrong_text(read(name)))
    for name in files[:2]:
        printed = subprocess.run([einmal, "check", "--print", "-c", os.path.join(ROOT, name)], capture_output=True, text=True)
        check(f"{name} as einmal prints it", wrong_text(printed.stdout))
    for name in sorted(glob.glob(os.path.join(ROOT, "conf", "presets", "*.yaml"))):
        with open(name, encoding="utf-8") as file:
            route = dict(yaml.load(file, Loader), name="r")
        check(f"preset {os.path.basename(name)}, as a route", wrong({"upstreams": {"a": {"url": "http://a"}}, "routes": [route]}))


def check_reference():
    """The line by which an editor finds the schema, and every setting that is only shown as a comment there."""
    text = read("conf", "einmal.yaml")
    found = re.search(r"^# yaml-language-server: \$schema=(\S+)$", text, re.M)
    check("einmal.yaml names its schema", [] if found and os.path.exists(os.path.join(ROOT, "conf", found[1])) else ["it does not"])


def excuse(message):
    """The pattern of UNSEEN that the message is of."""
    return next((pattern for pattern in UNSEEN if re.search(pattern, message)), None)


def check_inputs(build):
    """The texts of the unit tests, each with what einmal said."""
    counts = {"accepted": 0, "refused": 0}
    excused = set()
    with tempfile.TemporaryDirectory() as folder:
        for binary in sorted(glob.glob(os.path.join(build, "tests", "test_conf_*"))):
            subprocess.run([binary, "-j2"], env=dict(os.environ, EINMAL_KEEP_CONF=folder), capture_output=True, timeout=120, check=True)
        for name in sorted(glob.glob(os.path.join(folder, "*.yaml"))):
            verdict = "accepted" if os.path.exists(name[:-4] + "accepted") else "refused"
            text, messages = read(name), read(name[:-4] + verdict).splitlines()
            findings = wrong_text(text)
            if verdict == "accepted":
                check(f"einmal accepts\n{text}\nbut the schema does not", findings)
            elif "${" in text and not findings:  # what a variable holds nobody knows before it runs
                continue
            else:
                seen = [line for line in messages if not excuse(line)]
                check(f"einmal refuses\n{text}\nbut the schema does not", [] if findings else seen)
                excused.update(() if findings else map(excuse, messages))
            counts[verdict] += 1
    for verdict, count in counts.items():
        check(f"texts that are {verdict}", [] if count >= 100 else [f"only {count}"])
    check("excuses that excuse nothing", [pattern for pattern in UNSEEN if pattern not in excused])


def main():
    check_files(os.path.join(sys.argv[1], "einmal"))
    check_reference()
    check_inputs(sys.argv[1])
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
