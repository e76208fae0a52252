"""The HTTP face of the sandbox: requests, their verbs, and the forms of their answers."""
