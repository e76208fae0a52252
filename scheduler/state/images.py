"""Container images on nodes: which rows hold an image, and how large it is."""

from __future__ import annotations

import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.objects.node import ContainerImage


class _Image:
    __slots__ = ("rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.rows: dict[int, None] = {}


class ImageIndex:
    """Image name → rows that hold it; written by `NodeTable` alone.

    kube-scheduler: the size of an image is the first one seen, whichever node reported it.
    """

    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self._names_on: dict[int, tuple[str, ...]] = {}
        self.generation = 0

    def set(self, row: int, images: tuple[ContainerImage, ...]) -> None:
        """Write the images of one row; `()` clears it."""
        names = tuple(dict.fromkeys(name for image in images for name in image.names))
        for name in self._names_on.pop(row, ()):
            image = self._images[name]
            image.rows.pop(row, None)
            if not image.rows and name not in names:
                del self._images[name]
        for held in images:
            for name in held.names:
                image_of_name = self._images.get(name)
                if image_of_name is None:
                    image_of_name = self._images[name] = _Image(held.size_bytes)
                image_of_name.rows[row] = None
        if names:
            self._names_on[row] = names
        self.generation += 1

    def holds(self, name: str) -> bool:
        """Whether any node holds the image."""
        return name in self._images

    def spread_size(self, name: str, rows: int, nodes: int) -> IntColumn:
        """Return per row the image's size in bytes times the share of nodes that hold it, or 0.

        `rows` is the length of the column, `nodes` the number of nodes there are.
        """
        column = np.zeros(rows, dtype=np.int64)
        image = self._images.get(name)
        if image is not None and nodes:
            share = len(image.rows) / nodes
            column[list(image.rows)] = int(image.size_bytes * share)
        return column

    def copy(self) -> ImageIndex:
        """Return an independent copy."""
        twin = ImageIndex()
        for name, image in self._images.items():
            copied = twin._images[name] = _Image(image.size_bytes)
            copied.rows = dict(image.rows)
        twin._names_on = dict(self._names_on)
        twin.generation = self.generation
        return twin
