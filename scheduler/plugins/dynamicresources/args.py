"""Arguments of DynamicResources, as in kube-scheduler."""

from collections.abc import Iterator

from scheduler.framework.args import Args
from scheduler.framework.duration import Duration, canonical, seconds


class DynamicResourcesArgs(Args):
    """The time limit for allocation on one node (0: none), and for waiting for devices."""

    filter_timeout: Duration = "10s"
    binding_timeout: Duration = "10m0s"

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the values that kube-scheduler rejects."""
        if seconds(self.filter_timeout) < 0:
            shown = canonical(self.filter_timeout)
            yield "filterTimeout", f'Invalid value: "{shown}": must be zero or positive'
        if seconds(self.binding_timeout) < 1:
            shown = canonical(self.binding_timeout)
            yield "bindingTimeout", f'Invalid value: "{shown}": must be at least 1 second'
