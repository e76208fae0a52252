"""Types, validation and worst-case costs of a syntax tree."""
