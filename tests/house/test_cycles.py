"""No file imports itself through others: a file can be understood from the files below it.

Imports for types alone and imports inside functions count as well.
"""

import networkx as nx

from tests.house.structure import imports


def test_no_cycle_of_imports_between_files():
    """Each file is importable first, without a file that imports it in turn."""
    assert [] == [
        sorted(part) for part in nx.strongly_connected_components(imports()) if len(part) > 1
    ]
