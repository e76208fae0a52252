"""The HTTP API of the sandbox: requests, verbs, and formats of responses."""
