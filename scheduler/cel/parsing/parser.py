"""From tokens to a tree, by precedence (a Pratt parser); macros are written out at once.

Nesting is bounded far below the depth that would exhaust the stack, in the parser and in every
function that walks the tree. After a single extraneous token the parser continues, as upstream
does, so that messages agree.
"""

from scheduler.cel.parsing import syntax
from scheduler.cel.parsing.grammar import (
    CLOSED,
    CONSTANTS,
    FUNCTION_OF,
    PRECEDENCE,
    RESERVED,
    STARTS,
    start_words,
)
from scheduler.cel.parsing.lexer import Token, tokens
from scheduler.cel.parsing.literals import constant
from scheduler.cel.parsing.macros import RECEIVER_MACROS, MacroError, has
from scheduler.cel.parsing.problems import NOWHERE, SelectorProblems

DEEPEST_NESTING = 110
DEEPEST_TREE = 200
LARGEST_TREE = 20_000


def parse(text: str, problems: SelectorProblems) -> syntax.SyntaxNode:
    """Return the tree of a text; CelCompileError with all problems if it is invalid."""
    parser = _Parser(text, problems)
    tree = parser.expression()
    parser.end()
    problems.raise_any()
    if tree.depth > DEEPEST_TREE or tree.size > LARGEST_TREE:
        problems.fail(NOWHERE, "max recursion depth exceeded")
    return tree


class _Parser:
    def __init__(self, text: str, problems: SelectorProblems) -> None:
        self._text = text
        self._problems = problems
        self._tokens = tokens(text, problems)
        self._also = ""  # tokens other than operands that are expected next, for messages
        self._at = 0
        self._nesting = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "<EOF>":
            self._at += 1
        return token

    def _skip(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        if self._next.kind != kind:
            return False
        self._take()
        return True

    def _complain(self, token: Token, what: str) -> None:
        self._problems.add(token.at, f"Syntax error: {what}")

    def _give_up(self, token: Token, what: str) -> None:
        self._problems.fail(token.at, f"Syntax error: {what}")

    def _expect(self, kind: str, among: str = "") -> None:
        """Consume a token of this kind; recover from one missing token at the end or one extraneous
        token.
        """
        token = self._next
        if self._skip(kind):
            return
        if self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].kind == kind:
            self._complain(
                token, f"extraneous input '{token.text}' expecting {among or repr(kind)}"
            )
            self._at += 2
            return
        if kind == ":" and token.kind in STARTS:
            self._complain(token, f"missing ':' at '{token.text}'")
            return
        if token.kind == "<EOF>" and not among and kind in (")", "]"):
            self._give_up(token, f"missing '{kind}' at '<EOF>'")
        self._give_up(token, f"mismatched input '{token.text}' expecting {among or repr(kind)}")

    def end(self) -> None:
        """Report any tokens after the expression."""
        token = self._next
        if token.kind == "<EOF>":
            return
        last = self._tokens[self._at + 1].kind == "<EOF>"
        kind = "extraneous" if last else "mismatched"
        self._complain(token, f"{kind} input '{token.text}' expecting <EOF>")

    def expression(self) -> syntax.SyntaxNode:
        """Return the next expression, a choice `a ? b : c` included."""
        self._nesting += 1
        if self._nesting > DEEPEST_NESTING:
            self._problems.fail(NOWHERE, f"expression recursion limit exceeded: {DEEPEST_NESTING}")
        node = self._binary(1)
        if self._next.kind == "?":
            at = self._take().at
            chosen = self._binary(1)
            self._expect(":")
            node = syntax.FunctionCall(at, "_?_:_", [node, chosen, self.expression()])
        self._nesting -= 1
        return node

    def _binary(self, lowest: int) -> syntax.SyntaxNode:
        """Return the next operand with all operators that bind at least as tight as `lowest`."""
        left = self._operand()
        while True:
            kind = self._next.kind
            precedence = PRECEDENCE.get(kind, 0)
            if precedence < lowest or precedence == 0:
                return left
            if precedence <= 2:
                left = self._logical(left, kind, precedence)
                continue
            at = self._take().at
            left = syntax.FunctionCall(at, FUNCTION_OF[kind], [left, self._binary(precedence + 1)])

    def _logical(self, first: syntax.SyntaxNode, kind: str, precedence: int) -> syntax.SyntaxNode:
        """Return a chain of `&&` or `||` as a tree that is as flat as it can be."""
        terms = [first]
        operators: list[int] = []
        while self._next.kind == kind:
            operators.append(self._take().at)
            terms.append(self._binary(precedence + 1))
        return syntax.balanced(FUNCTION_OF[kind], terms, operators, 0, len(operators) - 1)

    def _operand(self) -> syntax.SyntaxNode:
        """Return the next operand with its signs, fields, calls and indices."""
        signs: list[Token] = []
        kind = self._next.kind
        if kind in ("!", "-") and not self._negative_number():
            while self._next.kind == kind:
                signs.append(self._take())
                self._also = ""
        node = self._primary()
        while (suffix := self._next.kind) in (".", "["):
            node = self._field(node) if suffix == "." else self._index(node)
        if len(signs) % 2:
            node = syntax.FunctionCall(signs[0].at, "!_" if kind == "!" else "-_", [node])
        return node

    def _negative_number(self) -> bool:
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)].kind
        return self._next.kind == "-" and following in ("int", "float")

    def _primary(self) -> syntax.SyntaxNode:
        token = self._start()
        kind = token.kind
        if kind == "(":
            node = self.expression()
            self._expect(")")
            return node
        if kind == "[":
            return self._list(token)
        if kind == "{":
            return self._map(token)
        if kind in ("word", "."):
            return self._name(token)
        if kind in CONSTANTS:
            return syntax.Literal(token.at, CONSTANTS[kind])
        return self._number_or_text(token)

    def _start(self) -> Token:
        """Consume a token that an operand may start with; skip one extraneous token."""
        token = self._next
        more, self._also = self._also, ""
        if token.kind in STARTS:
            return self._take()
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind != "<EOF>" and following.kind in STARTS:
            self._complain(token, f"extraneous input '{token.text}' expecting {start_words(more)}")
            self._at += 2
            return following
        self._give_up(token, f"mismatched input '{token.text}' expecting {start_words(more)}")
        raise AssertionError

    def _list(self, opening: Token) -> syntax.SyntaxNode:
        elements: list[syntax.SyntaxNode] = []
        optional: set[int] = set()
        more = "']'"
        while self._next.kind in STARTS or self._next.kind == "?" or not elements:
            if self._next.kind in ("]", ",", "<EOF>"):
                break
            if self._skip("?"):
                optional.add(len(elements))
            elements.append(self.expression())
            more = "{']', ','}"
            if not self._skip(","):
                break
            more = ""
        if not elements:
            self._skip(",")
        self._expect("]", more)
        return syntax.ListLiteral(opening.at, elements, frozenset(optional))

    def _map(self, opening: Token) -> syntax.SyntaxNode:
        entries: list[tuple[syntax.SyntaxNode, syntax.SyntaxNode]] = []
        optional: set[int] = set()
        while self._next.kind not in ("}", ",", "<EOF>"):
            if self._skip("?"):
                optional.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._skip(","):
                break
        else:
            self._skip(",")
        self._expect("}", "{'}', ','}" if entries else "'}'")
        return syntax.MapLiteral(opening.at, entries, frozenset(optional))

    def _arguments(self) -> list[syntax.SyntaxNode]:
        """Return the arguments between the parentheses of a call."""
        found: list[syntax.SyntaxNode] = []
        if self._skip(")"):
            return found
        token = self._next
        if token.kind not in (*STARTS, "<EOF>") and self._tokens[self._at + 1].kind == ")":
            self._complain(
                token, f"extraneous input '{token.text}' expecting {start_words(CLOSED)}"
            )
            self._at += 2
            return found
        self._also = CLOSED
        found.append(self.expression())
        while self._skip(","):
            found.append(self.expression())
        self._expect(")")
        return found

    def _name(self, token: Token) -> syntax.SyntaxNode:
        """Return a variable, a call of a function, or a message."""
        dot = ""
        if token.kind == ".":
            dot = "."
            token = self._take()
            if token.kind != "word":
                self._no_field(self._tokens[self._at - 2], token)
        if message := self._message(dot + token.text):
            return message
        if token.text in RESERVED:
            self._problems.add(token.at, f"reserved identifier: {token.text}")
        if self._next.kind != "(":
            return syntax.Ident(token.at, dot + token.text)
        at = self._take().at
        args = self._arguments()
        if token.text == "has" and not dot and len(args) == 1:
            try:
                return has(at, args)
            except MacroError as error:
                self._problems.add(error.node.at, error.message)
                return args[0]
        return syntax.FunctionCall(at, dot + token.text, args)

    def _message(self, name: str) -> syntax.SyntaxNode | None:
        """Return `a.b.C{...}` if the next tokens form a message literal."""
        at = self._at
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "word":
            name += "." + self._tokens[at + 1].text
            at += 2
        if self._tokens[at].kind != "{":
            return None
        self._at = at + 1
        values: list[syntax.SyntaxNode] = []
        while self._next.kind in ("word", "?", "escaped"):
            self._skip("?")
            self._take()
            self._expect(":")
            values.append(self.expression())
            if not self._skip(","):
                break
        self._skip(",")
        self._expect("}")
        return syntax.Message(self._tokens[at].at, name, values)

    def _field(self, operand: syntax.SyntaxNode) -> syntax.SyntaxNode:
        """Return a field, an optional field or a method of the operand."""
        dot = self._take()
        optional = self._skip("?")
        token = self._next
        if token.kind == "escaped":
            self._problems.add(token.at, "unsupported syntax: '`'")
        elif token.kind != "word":
            if optional:
                names = "{IDENTIFIER, ESC_IDENTIFIER}"
                self._give_up(token, f"mismatched input '{token.text}' expecting {names}")
            self._no_field(dot, token)
        self._take()
        if optional:
            return syntax.FunctionCall(
                dot.at, "_?._", [operand, syntax.Literal(token.at, token.text)]
            )
        if self._next.kind != "(" or token.kind == "escaped":
            return syntax.Select(dot.at, operand, token.text)
        at = self._take().at
        return self._method(at, token.text, operand, self._arguments())

    def _no_field(self, dot: Token, token: Token) -> None:
        """Report an invalid name after a dot."""
        if token.kind in CONSTANTS:
            self._give_up(token, f"mismatched input '{token.text}' expecting IDENTIFIER")
        end = token.at + (0 if token.kind == "<EOF>" else len(token.text))
        seen = self._text[dot.at : end].rstrip()
        self._give_up(token, f"no viable alternative at input '{seen}'")

    def _method(
        self, at: int, name: str, target: syntax.SyntaxNode, args: list[syntax.SyntaxNode]
    ) -> syntax.SyntaxNode:
        expand = RECEIVER_MACROS.get((name, len(args)))
        if expand is not None:
            try:
                expanded = expand(at, target, args)
            except MacroError as error:
                self._problems.add(error.node.at, error.message)
                return target
            if expanded is not None:
                return expanded
        return syntax.FunctionCall(at, name, args, target)

    def _index(self, operand: syntax.SyntaxNode) -> syntax.SyntaxNode:
        at = self._take().at
        function = "_[?_]" if self._skip("?") else "_[_]"
        self._also = "'?'" if function == "_[_]" else ""
        index = self.expression()
        self._expect("]")
        return syntax.FunctionCall(at, function, [operand, index])

    def _number_or_text(self, token: Token) -> syntax.SyntaxNode:
        at = token.at
        sign = ""
        if token.kind == "-":
            sign = "-"
            token = self._take()
        try:
            return syntax.Literal(at, constant(token.kind, token.text, sign))
        except ValueError as error:
            self._problems.add(at, str(error))
            return syntax.Literal(at, None)
