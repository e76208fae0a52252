"""The NodeMetric operator: one object per node, and its figures where no agent reports them.

Nothing is imported here: the agent on every node uses the rules without the operator's memory.
"""
