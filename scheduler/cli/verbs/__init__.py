"""The verbs: what each does after its flags are read, imported when the verb is called."""
