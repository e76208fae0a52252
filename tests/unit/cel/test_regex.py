"""Patterns in selectors: differences between RE2 and Go's package follow Go."""

import pytest

from scheduler.cel import CelCompileError, DeviceInput, compile_selector
from scheduler.cel.evaluation.regex import Regex, RegexError

DEVICE = DeviceInput("gpu.example.com", {}, {})

# The texts of Go's regexp.Compile.
WRONG = {
    "a(b": "missing closing ): `a(b`",
    "a)b": "unexpected ): `a)b`",
    "[a": "missing closing ]: `[a`",
    "[b-a]": "invalid character class range: `b-a`",
    r"\pX": r"invalid character class range: `\pX`",
    "*a": "missing argument to repetition operator: `*`",
    "a**": "invalid nested repetition operator: `**`",
    "a{1001}?": "invalid repeat count: `{1001}`",
    "a{2,1}": "invalid repeat count: `{2,1}`",
    "a(?=b)": "invalid or unsupported Perl syntax: `(?=`",
    "(?i": "missing closing ): `(?i`",
    "x(?<!a)": "invalid named capture: `(?<!a)`",
    "(?P<1-2>a)": "invalid named capture: `(?P<1-2>`",
    "(?P<a>b)(?P<a>c)": "duplicate capture group name: `a`",
    r"\8": r"invalid escape sequence: `\8`",
    r"a\C": r"invalid escape sequence: `\C`",
    "a\\": "trailing backslash at end of expression",
    r"\pL{1000}": "expression too large",
    "(" * 1001 + ")" * 1001: f"expression nests too deeply: `{'(' * 1001 + ')' * 1001}`",
}


@pytest.mark.parametrize("pattern", WRONG)
def test_errors_have_the_texts_of_go(pattern):
    """The messages appear in the API server's rejections, and in conditions."""
    with pytest.raises(RegexError) as reported:
        Regex(pattern)

    assert f"error parsing regexp: {WRONG[pattern]}" == str(reported.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\\C", r"\C"),
        (r"\Qa\C\E", r"a\C"),
        (r"[(?P<a>b)](?P<a>c)", "bc"),
        (r"\(?P<a>b(?P<a>c)", "P<a>bc"),
    ],
)
def test_what_only_looks_forbidden_is_taken(pattern, text):
    """A backslash before a C, quoted text and classes are no operators: the pattern matches its
    text.
    """
    assert Regex(pattern).matches(text)


def test_matches_are_those_of_go():
    """No match begins inside the bytes of a character, and no empty match directly follows
    another.
    """
    assert ["", "a", ""] == Regex("a?").find_all("éa-")
    assert ["", "", ""] == Regex("x*").find_all("é😀")
    assert ["a", ""] == Regex("a*").find_all("ab")
    assert ["a"] == Regex("a").find_all("aaa", 1)
    assert [] == Regex("a").find_all("aaa", 0)
    assert ("a", "") == (Regex("a|ab").find("xab"), Regex("z").find("a"))


def test_names_of_scripts_are_known():
    """The set of names is that of the API server."""
    assert compile_selector(r"'αβγ'.matches('^\\p{Greek}+$')").evaluate(DEVICE)
    with pytest.raises(CelCompileError):
        compile_selector(r"device.driver.matches('\\p{Klingon}')")
