"""The arguments of InterPodAffinity, with kube-scheduler's rules and texts."""

from collections.abc import Iterator

from scheduler.framework import Args


class InterPodAffinityArgs(Args):
    """`hardPodAffinityWeight` is what a placed pod's required affinity adds to a score, 0..100.

    `ignorePreferredTermsOfExistingPods` leaves pods without preferred terms of their own unscored.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the rules that do not hold."""
        weight = self.hard_pod_affinity_weight
        if not 0 <= weight <= 100:
            yield "hardPodAffinityWeight", f"Invalid value: {weight}: not in valid range [0-100]"
