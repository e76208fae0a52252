"""Container images on nodes: which rows hold an image, and how large it is."""

import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.objects.node import ContainerImage
from scheduler.state.columns import Column


class _Image:
    """The nodes that hold an image, as a set of rows and, after the first use, as a column."""

    __slots__ = ("column", "rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: set[int] = set()
        self.column: Column[np.bool_] | None = None

    def hold(self, row: int) -> None:
        self.rows.add(row)
        self._write(row, present=True)

    def drop(self, row: int) -> None:
        self.rows.discard(row)
        self._write(row, present=False)

    def present(self, rows: int) -> BoolColumn:
        if self.column is None:
            self.column = Column(np.bool_, fill=False, size=rows)
            for row in self.rows:
                self.column.set(row, True)
        self.column.grow(rows)
        return self.column.values

    def _write(self, row: int, *, present: bool) -> None:
        if self.column is not None:
            self.column.grow(row + 1)
            self.column.set(row, present)


class ImageIndex:
    """Image name → rows that have it; written by `NodeTable` alone.

    kube-scheduler: the size of an image is the first one seen, whichever node reported it.
    """

    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self._names_on: dict[int, tuple[str, ...]] = {}

    def set(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Write the images of one row; `()` clears it."""
        sizes: dict[str, int] = {}
        for image in images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        before = self._names_on.get(row, ())
        # Most writes change nothing: nodes are written again with every heartbeat.
        if len(before) == len(sizes) and all(name in sizes for name in before):
            return
        for name in before:
            if name not in sizes:
                self._images[name].drop(row)
                if not self._images[name].rows:
                    del self._images[name]
        for name, size_bytes in sizes.items():
            if name not in self._images:
                self._images[name] = _Image(size_bytes)
            self._images[name].hold(row)
        if sizes:
            self._names_on[row] = tuple(sizes)
        else:
            self._names_on.pop(row, None)

    def holds(self, name: str) -> bool:
        """Return whether any node holds the image."""
        return name in self._images

    def present(self, name: str, rows: int) -> BoolColumn | None:
        """Return which rows (of `rows` in all) have the image; None if none does."""
        image = self._images.get(name)
        return None if image is None else image.present(rows)

    def spread_bytes(self, name: str, nodes: int) -> int:
        """Return the image's size in bytes times the share of the `nodes` that hold it."""
        image = self._images.get(name)
        if image is None or not nodes:
            return 0
        return int(image.size_bytes * (len(image.rows) / nodes))
