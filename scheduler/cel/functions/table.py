"""All functions by name, from the libraries in the order in which upstream's environment has
them.
"""

from scheduler.cel.functions.arithmetic import ARITHMETIC
from scheduler.cel.functions.conversions import CONVERSIONS
from scheduler.cel.functions.kubernetes import AUTHORIZATION, KUBERNETES
from scheduler.cel.functions.lists import EXTENDED_LISTS, KUBERNETES_LISTS
from scheduler.cel.functions.names import NAMED_FORMATS
from scheduler.cel.functions.network import NETWORK
from scheduler.cel.functions.optionals import OPTIONALS
from scheduler.cel.functions.texts import KUBERNETES_REGEX, TEXTS
from scheduler.cel.functions.times import TIMES
from scheduler.cel.library import functions_of

FUNCTIONS = functions_of(
    (
        ARITHMETIC,
        CONVERSIONS,
        TIMES,
        KUBERNETES_REGEX,
        KUBERNETES_LISTS,
        AUTHORIZATION,
        OPTIONALS,
        KUBERNETES,
        TEXTS,
        NETWORK,
        NAMED_FORMATS,
        EXTENDED_LISTS,
    )
)
