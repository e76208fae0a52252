"""`Domains`: the nodes of the cluster by the value of one label, for counts per domain.

Each value has a slot, a small number from 1 on; slot 0 has the rows without the label and those
without a node. Arrays over slots have `size` entries; slots of values without nodes stay empty.
"""

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IdColumn, IntColumn, Rows


class Domains(msgspec.Struct, frozen=True):
    """The slot of each row, and the number of rows in each slot (0 for slot 0).

    `labelled` is the number of rows that have the label, `count` the number of domains.
    """

    key: str
    slots: Rows
    rows_in: IntColumn
    labelled: int
    count: int

    @property
    def size(self) -> int:
        """Return the number of slots, slot 0 included."""
        return len(self.rows_in)

    @property
    def present(self) -> BoolColumn:
        """Return which slots are domains: some node has that value."""
        return self.rows_in > 0


def domains_of(key: str, ids: IdColumn, values: int) -> Domains:
    """Return the domains of a label column with ids from -1 (missing) to `values` - 1."""
    slots = ids.astype(np.intp) + 1
    slots.flags.writeable = False
    rows_in = np.bincount(slots, minlength=values + 1)
    labelled = len(slots) - int(rows_in[0])
    rows_in[0] = 0
    rows_in.flags.writeable = False
    return Domains(key, slots, rows_in, labelled, int(np.count_nonzero(rows_in)))
