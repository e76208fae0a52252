"""The kinds of the sandbox: fields, defaults, validation, columns."""
