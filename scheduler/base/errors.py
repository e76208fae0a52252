"""The errors of Trellis: one tree, so that a caller can catch just what it can handle.

    TrellisError
    ├── InputError          invalid input of a user; has its place (file:line:column, object)
    │   ├── ConfigError     a configuration file
    │   └── ObjectError     a Kubernetes object (bad quantity, bad selector)
    ├── PluginError         an exception out of a plugin, named with plugin and extension point
    ├── ApiError            the API server answered with a failure; carries its status
    └── StateError          an invariant of our own is broken: a bug, never the user's fault

Outcomes (a pod that does not fit) are values of `scheduler.framework.status`, never exceptions.
"""


class TrellisError(Exception):
    """Base class of all errors that Trellis raises."""


class InputError(TrellisError):
    """An input of a user is invalid; `where` names file:line:column or the object."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class MissingError(TrellisError):
    """The requested object is missing; `where` names it. The request itself was valid."""

    def __init__(self, message: str, *, where: str) -> None:
        super().__init__(f"{where}: {message}")


class ConfigError(InputError):
    """A configuration file cannot be used."""


class ObjectError(InputError):
    """A Kubernetes object holds a value that Kubernetes itself would refuse."""


class PluginError(TrellisError):
    """An exception out of a plugin; ends the cycle of one pod, nothing else."""

    def __init__(self, plugin: str, point: str, message: str) -> None:
        super().__init__(_running(plugin, point, message))
        self.plugin = plugin
        self.point = point
        self.message = message


class ApiError(TrellisError):
    """The API server answered with a failure; `code` is the HTTP status, 0 if no response
    arrived.
    """

    def __init__(
        self, message: str, *, code: int = 0, reason: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class StateError(TrellisError):
    """An invariant of the scheduler's own memory does not hold."""


def _running(plugin: str, point: str, message: str) -> str:
    """Return kube-scheduler's words for a plugin that failed; they differ from point to point."""
    if point == "Filter":
        return f'running "{plugin}" filter plugin: {message}'
    if point == "Score":
        return f'running Score plugins: plugin "{plugin}" failed with: {message}'
    return f'running {point} plugin "{plugin}": {message}'
