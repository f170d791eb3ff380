"""What is left of an ALLOW once every DENY is taken off: whether any address remains from which it still holds."""

from collections.abc import Iterable

from app.core.access.host_keys import END, NOBODY, host_key

_SIBLING = {"0": "1", "1": "0", "4": "6", "6": "4"}


class _Covered:
    """The addresses that some hosts mean together, as keys of `app.pipeline.access.hosts`."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._keys = {host_key(host) for host in hosts} - {NOBODY}
        waiting = list(self._keys)
        while waiting:
            key = waiting.pop()
            # Two halves make a whole. An exact IPv6 address is no half of anything: the same with a zone is left.
            if key and not key.endswith(END) and key[:-1] + _SIBLING[key[-1]] in self._keys:
                wider = key[:-1]
                if wider not in self._keys:
                    self._keys.add(wider)
                    waiting.append(wider)

    def holds(self, key: str) -> bool:
        """Whether each address that this key means is covered."""
        return any(key[:length] in self._keys for length in range(len(key) + 1))


class Denials:
    """The DENYs that speak of one principal and one resource, as (host, mask)."""

    def __init__(self, denials: Iterable[tuple[str, int]]) -> None:
        self._denials = list(denials)
        self._covered: dict[int, _Covered] = {}

    def with_more(self, denials: list[tuple[str, int]]) -> "Denials":
        """These and some others; itself if there are none."""
        return Denials([*self._denials, *denials]) if denials else self

    def surviving(self, host: str, mask: int) -> int:
        """The operations of an ALLOW's mask that hold from at least one address of its host."""
        key = host_key(host)
        left = 0
        while mask and key != NOBODY:
            bit = mask & -mask
            mask ^= bit
            if not self._covering(bit).holds(key):
                left |= bit
        return left

    def _covering(self, bit: int) -> _Covered:
        covered = self._covered.get(bit)
        if covered is None:
            covered = _Covered(host for host, mask in self._denials if mask & bit)
            self._covered[bit] = covered
        return covered
