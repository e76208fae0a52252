"""`trellis version`, `config` and `plugins`: results on stdout, everything else on stderr."""

import io
import json
import sys

import jsonschema_rs
import msgspec
import pytest
import yaml

from scheduler.about import VERSION
from scheduler.cli.main import run
from scheduler.cli.output.printing import table
from scheduler.cli.verbs.files.plugins import describe
from scheduler.intree import registry

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NAMED = f"{HEAD}profiles: [{{schedulerName: mine}}]\nleaderElection: {{leaderElect: false}}\n"


def out_of(argv, capsys):
    """Run a command line that must do its work; return its stdout."""
    assert 0 == run(argv)
    return capsys.readouterr().out


def stdin(monkeypatch, raw):
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_version_as_a_document(form, capsys):
    """Machines read the version and the Kubernetes versions."""
    document = yaml.safe_load(out_of(["version", "-o", form], capsys))

    assert VERSION == document["version"]
    assert document["kubernetesVersions"]


def test_check_says_what_a_file_schedules(tmp_path, capsys):
    """A valid file is one line on stdout; notices are on stderr."""
    file = tmp_path / "s.yaml"
    file.write_text(NAMED)

    assert 0 == run(["config", "check", str(file)])
    out, err = capsys.readouterr()

    assert f"{file}: valid; schedules pods whose schedulerName is mine\n" == out
    assert all(line.startswith(f"notice: {file}:") for line in err.splitlines())


def test_check_reports_all_mistakes_of_a_file(monkeypatch, capsys):
    """Each mistake has one line with its place; the exit code is 2."""
    stdin(monkeypatch, f"{HEAD}paralelism: 3\nprofiles: 5\n".encode())

    assert 2 == run(["config", "check", "-"])
    out, err = capsys.readouterr()

    assert "" == out
    assert [
        'error: <stdin>:3:1: unknown field "paralelism" (did you mean "parallelism"?)',
        "error: <stdin>:4:11: profiles: expected a list, got 5",
    ] == err.splitlines()


@pytest.mark.parametrize(
    ("manifest", "reported"),
    [
        ("{", "not YAML"),
        ("{kind: Node, apiVersion: v1, metadata: {name: n}}", "names no pod that is to be placed"),
    ],
)
def test_check_reads_the_shapes_that_are_to_be_counted(monkeypatch, capsys, manifest, reported):
    """A shape that the daemon could not count is a mistake of the file."""
    ours = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrellisConfiguration\n"
    shape = json.dumps([{"name": "a", "manifest": manifest}])
    stdin(monkeypatch, f"{HEAD}{ours}capacity: {{shapes: {shape}}}\n".encode())

    assert 2 == run(["config", "check", "-"])
    err = capsys.readouterr().err
    assert "\nerror: <stdin>: capacity.shapes[0].manifest" in err
    assert reported in err


@pytest.mark.parametrize(
    ("raw", "error"),
    [(b"a: \xff", "error: <stdin>:1: not UTF-8 text\n"), (b"", "error: <stdin>:1:1: the file is")],
)
def test_check_of_what_is_no_text(raw, error, monkeypatch, capsys):
    """Bytes that are no text are refused like any other mistake."""
    stdin(monkeypatch, raw)

    assert 2 == run(["config", "check", "-"])
    assert capsys.readouterr().err.startswith(error)


def test_a_file_that_is_not_there(capsys):
    """The file and the reason are named."""
    assert 2 == run(["config", "print", "/no/such/file"])
    assert "error: /no/such/file: cannot be read: No such file or directory\n" == (
        capsys.readouterr().err
    )


def test_print_shows_the_effective_configuration(tmp_path, capsys):
    """The output is a valid file with the same meaning."""
    file = tmp_path / "s.yaml"
    file.write_text(NAMED)
    printed = out_of(["config", "print", str(file)], capsys)
    file.write_text(printed)

    assert printed == out_of(["config", "print", str(file)], capsys)
    assert "mine\n" == out_of(["config", "print", str(file), "-o", "name"], capsys)


def test_defaults_are_what_runs_without_a_file(capsys):
    """One profile with our name; as JSON in the form of /configz."""
    document = json.loads(out_of(["config", "defaults", "-o", "json"], capsys))
    profile = document["componentconfig"]["profiles"][0]

    assert "trellis" == profile["schedulerName"]
    assert [{"name": "PrioritySort"}] == profile["plugins"]["queueSort"]["enabled"]
    assert document["trellisconfig"]["page"]["enabled"]
    assert out_of(["config", "defaults"], capsys) == out_of(["config", "print"], capsys)


def test_plugins_lists_all_of_them(capsys):
    """The table has points and arguments; -o name prints names alone."""
    lines = out_of(["plugins"], capsys).splitlines()
    names = out_of(["plugins", "-o", "name"], capsys).split()

    assert ["NAME", "DEFAULT", "POINTS", "ARGS"] == lines[0].split()
    assert list(registry().names()) == names == [line.split()[0] for line in lines[1:]]
    assert "REASON" not in lines[0]
    assert "READS" in out_of(["plugins", "-o", "wide"], capsys).splitlines()[0]


def test_plugins_can_be_named(capsys):
    """Only the named plugins are printed; a wrong name is an error with a suggestion."""
    assert "NodePorts\n" == out_of(["plugins", "NodePorts", "-o", "name"], capsys)
    assert 2 == run(["plugins", "Nodeports"])
    assert '(did you mean "NodePorts"?)' in capsys.readouterr().err


@pytest.mark.parametrize("item", describe(registry()), ids=lambda item: item["name"])
def test_argument_schemas_accept_the_defaults(item):
    """The printed schema is valid, and the printed defaults satisfy it."""
    document = json.loads(msgspec.json.encode(item))

    assert jsonschema_rs.is_valid(document["argsSchema"], document["args"])
    assert not jsonschema_rs.is_valid(document["argsSchema"], {"noSuchArgument": 1})
    assert document["points"]
    assert document["description"]


def test_tables_align_as_kubectls():
    """Columns are three spaces apart, empty cells are a dash, no line has trailing blanks."""
    assert "A    LONG\n-    x\nbb   -" == table(["a", "long"], [["", "x"], ["bb", ""]])


def test_a_narrow_table_loses_columns_before_it_is_cut():
    """First those without text, then the optional ones; the sentence gets most of the remaining
    width.
    """
    sentence = "a sentence that says what is wrong"
    rows = [["a", "", "x" * 20, sentence]]
    titles = ["name", "empty", "extra", "why"]
    whole = table(titles, rows, width=80)
    assert sentence in whole
    assert "EMPTY" in whole

    narrow = table(titles, rows, width=50, optional=("extra",))
    assert "EMPTY" not in narrow
    assert "EXTRA" not in narrow
    assert sentence in narrow

    cut = table(titles, rows, width=40)
    assert "EXTRA" in cut
    assert max(map(len, cut.splitlines())) <= 40
    assert "a sentence that say…" in cut
