"""What the sandbox knows of each kind: fields, defaults, validation, columns."""
