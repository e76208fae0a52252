"""The command line: `main` finds the verb, `commands` has its flags, `verbs` do the work.

`inputs` read the files and objects of a verb, `output` prints its answer, `jobs` run in other
processes, and `agent` has the verbs of node agents. Heavy imports are inside the functions of
verbs.
"""
