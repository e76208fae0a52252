"""The frame of the command line: verbs, exit codes, one line per error, fast answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.cli import main as frame
from scheduler.cli.main import VERBS, run

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize("argv", [["version"], ["--help"], []])
def test_quick_answers_import_nothing_heavy(argv):
    """`version` and help answer at once because neither typer nor numpy nor YAML is loaded."""
    code = (
        "import sys; from scheduler.cli.main import run; code = run(sys.argv[1:]);"
        "heavy = {'typer', 'numpy', 'msgspec', 'yaml', 'rich', 'aiohttp'} & set(sys.modules);"
        "print(heavy or 'none', file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "none\n") == (done.returncode, done.stderr)
    assert "trellis" in done.stdout


def test_the_help_of_a_verb_imports_its_flags_alone():
    """The modules of a verb are loaded when it runs: all of them together would take seconds."""
    code = (
        "import sys; from scheduler.cli.main import VERBS, run;"
        "codes = {run([verb.name, '-h']) for verb in VERBS};"
        "heavy = {'numpy', 'aiohttp', 'kopf', 'ortools', 'scheduler.engine', 'scheduler.config'};"
        "print(codes, heavy & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )

    assert "{0} set()\n" == done.stderr


def test_help_lists_the_verbs(capsys):
    """Each verb is listed with its purpose."""
    assert 0 == run(["--help"])
    listed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    assert all(f"{verb.name} {verb.help}" in listed for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_every_verb_has_help(verb, capsys):
    """The module of each verb imports, its function exists, and -h describes it."""
    assert 0 == run([verb.name, "-h"])
    assert f"Usage: trellis {verb.name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["bogus"], "error: No such command 'bogus'."),
        (["confg"], "error: No such command 'confg'. Did you mean 'config'?"),
        (["version", "--foo"], "error: No such option: --foo"),
        (["config", "check"], "error: Missing argument 'F'."),
        (["plugins", "-o", "xml"], "error: Invalid value for '--output' / '-o':"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(argv, error, capsys):
    """Nothing is written to stdout."""
    assert 2 == run(argv)
    out, err = capsys.readouterr()

    assert "" == out
    assert err.startswith(error)
    assert 1 == err.count("\n")


def test_a_bug_is_one_line_and_a_traceback_only_with_v(monkeypatch, capsys):
    """An unexpected exception is reported as a bug in one line; `-v` adds the traceback."""

    def broken(*_):
        raise RuntimeError("gone wrong")

    monkeypatch.setattr(frame, "_dispatch", broken)

    assert 1 == run(["anything"])
    assert "error: RuntimeError: gone wrong (a bug; -v shows the traceback)\n" == (
        capsys.readouterr().err
    )
    assert 1 == run(["anything", "-v"])
    assert "Traceback" in capsys.readouterr().err


def test_a_stray_v_after_two_dashes_belongs_to_the_verb(capsys):
    """Arguments after `--` are never read as flags."""
    assert 2 == run(["plugins", "--", "-v"])
    assert 'plugin "-v" does not exist' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [("trellis plu", "plugins"), ("trellis config ", "check"), ("trellis plugins -o ", "yaml")],
)
def test_the_shell_completes_verbs_and_values(line, expected, monkeypatch, capsys):
    """The verb on the line is loaded, so that its own values complete too."""
    monkeypatch.setenv("_TRELLIS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))

    assert 0 == run([])
    assert expected in capsys.readouterr().out.split()


def test_collections_after_an_import_skip_its_objects():
    """Imported modules are excluded from collections, and garbage made later is still freed."""
    code = (
        "import gc, weakref; from scheduler.cli.command import no_collector\n"
        "with no_collector():\n"
        "    import typer.main\n"
        "    assert not gc.isenabled()\n"
        "class Ring: pass\n"
        "ring = Ring(); ring.itself = ring; there = weakref.ref(ring); del ring; gc.collect()\n"
        "kept = any(one is typer.main.__dict__ for one in gc.get_objects())\n"
        "print(gc.isenabled(), kept, there())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert "True False None\n" == done.stdout


def test_completion_prints_a_script(capsys):
    """The script calls back with our variable."""
    assert 0 == run(["completion", "zsh"])
    assert "_TRELLIS_COMPLETE" in capsys.readouterr().out


def test_a_reader_that_leaves_is_no_error():
    """`trellis --help | true` ends without a complaint, also where little is printed."""
    code = "from scheduler.cli.main import main; main(['--help'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()

    assert b"" == errors
