"""The NodeMetric operator: one object per node, and its figures where no agent reports them."""

from operators.nodemetric.operator import RECIPE, NodeMetricOperator

__all__ = ["RECIPE", "NodeMetricOperator"]
