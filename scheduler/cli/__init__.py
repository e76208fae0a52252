"""The command line: `main` finds the verb, `commands` has its flags, `verbs` do the work.

`inputs` read what a verb is about, `output` prints its answer, `jobs` run in other processes, and
`agent` has the verbs of node agents. Heavy imports are inside the functions of verbs.
"""
