"""The verbs: what each does after its flags are read, imported when the verb is called.

`start` runs processes, `observe` reads a cluster, `plan` calculates placements, `files` is about
configuration files and the installation.
"""
