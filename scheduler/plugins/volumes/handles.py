"""The CSI driver and volume handle behind a pod's volumes and claims."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler.framework import Pod
from scheduler.objects.storage import VolumeAttachment
from scheduler.plugins.volumes.claims import CLAIM, CLASS, VOLUME, claim_uses, class_of
from scheduler.plugins.volumes.migration import (
    driver_of_provisioner,
    handle_of,
    handle_of_inline,
)

# Kind → objects by key, as `Store.of` and `Handle.objects` give them.
Objects = Callable[[str], Mapping[str, Any]]


class CountedVolume(msgspec.Struct, frozen=True):
    """A volume counted once per node; one not provisioned yet is identified by its claim."""

    driver: str
    handle: str
    claim: str = ""


def volume_of_claim(objects: Objects, key: str) -> CountedVolume | None:
    """Return the volume of a claim: the bound one, or one that its class will provision."""
    claim = objects(CLAIM).get(key)
    if claim is None:
        return None
    volume = objects(VOLUME).get(claim.spec.volume_name)
    if volume is not None:
        handle = handle_of(volume)
        return CountedVolume(*handle) if handle is not None and all(handle) else None
    found = objects(CLASS).get(class_of(claim))
    driver = driver_of_provisioner(found.provisioner) if found is not None else ""
    return CountedVolume(driver, "", key) if driver else None


def volume_of_attachment(objects: Objects, attachment: VolumeAttachment) -> CountedVolume | None:
    """Return the attached volume; kube-scheduler: in-tree volumes do not count, migrated or not."""
    spec = attachment.spec
    volume = objects(VOLUME).get(spec.source.persistent_volume_name or "")
    if not spec.attacher or volume is None or volume.spec.csi is None:
        return None
    return CountedVolume(spec.attacher, volume.spec.csi.volume_handle)


def claim_keys(pod: Pod) -> tuple[str, ...]:
    """Return the claims that a pod uses, each once."""
    return tuple(dict.fromkeys(use.key for use in claim_uses(pod)))


def inline_volumes(pod: Pod) -> list[CountedVolume]:
    """Return the volumes in a pod's spec that a CSI driver serves, each once."""
    handles = (handle_of_inline(volume) for volume in pod.spec.volumes)
    return [CountedVolume(*handle) for handle in dict.fromkeys(handles) if handle is not None]


def volumes_of(objects: Objects, pod: Pod) -> list[CountedVolume]:
    """Return the volumes of a pod's claims and volumes, without those that no CSI driver owns."""
    found = [volume_of_claim(objects, key) for key in claim_keys(pod)]
    return [volume for volume in found if volume is not None] + inline_volumes(pod)
