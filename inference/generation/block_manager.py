"""Blocks of the paged key-value cache (Kwon et al., 2023), with prefix caching."""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from hashlib import sha256

from inference.generation.sequence import Sequence


class IntegrityError(Exception):
    """The records of the blocks contradict each other."""


class BlockManager:
    """Gives blocks of ``block_size`` tokens to sequences.

    Each block is free, used by one or several sequences, or cached: nobody uses it, and it is kept for a
    sequence that begins with the same tokens, until others need it. Only full blocks are shared and cached,
    by the hash of the tenant, the model's digest and all tokens up to the block's end. So a model never meets
    the keys and values of another one, and no tenant learns by the time of an answer what another has asked a
    model of the same digest. The block used least recently is evicted first.
    """

    def __init__(self, blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self._free = [*reversed(range(blocks))]
        self._cached: OrderedDict[int, None] = OrderedDict()  # least recently used first
        self._ref_counts = [0] * blocks
        self._hashes: dict[int, bytes] = {}  # of the blocks that may be shared
        self._block_of: dict[bytes, int] = {}
        self.found_tokens = 0
        """Hits of the prefix cache, in tokens: these were computed when a sequence got its blocks."""

    @property
    def cached(self) -> int:
        """Blocks of the prefix cache that no sequence uses."""
        return len(self._cached)

    @property
    def available(self) -> int:
        """Blocks that a sequence can get: free and cached ones."""
        return len(self._free) + len(self._cached)

    def allocate(self, sequence: Sequence, reserve: int = 0) -> bool:
        """Give blocks for all known tokens to a sequence that has none. Those of the longest cached prefix
        hold computed tokens. Returns False, and gives none, if fewer than ``reserve`` would be left."""
        assert not sequence.block_table, f"{sequence.id} has blocks"
        prefix = self._cached_prefix(sequence)
        new = self._blocks_for(sequence) - len(prefix)
        unused = sum(not self._ref_counts[block] for block in prefix)
        if new + reserve > self.available - unused:
            return False
        for block in prefix:
            self._cached.pop(block, None)
            self._ref_counts[block] += 1
        sequence.block_table = prefix + [self._take() for _ in range(new)]
        sequence.computed = len(prefix) * self.block_size
        self.found_tokens += sequence.computed
        return True

    def grow(self, sequence: Sequence) -> bool:
        """Give the further blocks that its known tokens need. Returns False, and gives none, if there are too
        few."""
        missing = self._blocks_for(sequence) - len(sequence.block_table)
        if missing > self.available:
            return False
        sequence.block_table += [self._take() for _ in range(missing)]
        return True

    def advance(self, sequence: Sequence, tokens: int) -> None:
        """Count so many more tokens as computed. Blocks that are full now may be shared."""
        first = sequence.computed // self.block_size
        sequence.computed += tokens
        hashes = self._hashes_of(sequence)
        for place in range(first, sequence.computed // self.block_size):
            block = sequence.block_table[place]
            if hashes[place] not in self._block_of:
                self._block_of[hashes[place]] = block
                self._hashes[block] = hashes[place]

    def release(self, sequence: Sequence, *, reusable: bool = True) -> None:
        """Take all blocks from the sequence. ``reusable``: what they hold may be shared from now on, too."""
        # The end of a prefix is evicted before its beginning, without which it is of no use.
        for block in reversed(sequence.block_table):
            if not reusable:
                self._uncache(block)
            self._ref_counts[block] -= 1
            if self._ref_counts[block]:
                continue
            if block in self._hashes:
                self._cached[block] = None
            else:
                self._free.append(block)
        sequence.block_table = []
        sequence.computed = 0

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Raise IntegrityError unless each block is free, cached, or used by just the sequences that have it.
        sequences: all with blocks."""
        used = Counter(block for sequence in sequences for block in sequence.block_table)
        if any(self._ref_counts[block] != used[block] for block in range(len(self._ref_counts))):
            raise IntegrityError("the users of the blocks are not the sequences that have them")
        if sorted([*self._free, *self._cached, *used]) != [*range(len(self._ref_counts))]:
            raise IntegrityError("free, cached and used blocks are not all blocks")
        if self._block_of != {hash_: block for block, hash_ in self._hashes.items()}:
            raise IntegrityError("a block is shared by a hash that is not its own")
        if not self._cached.keys() <= self._hashes.keys() or not self._hashes.keys().isdisjoint(self._free):
            raise IntegrityError("a block is cached without a hash, or free with one")

    def _blocks_for(self, sequence: Sequence) -> int:
        return -(-len(sequence.tokens) // self.block_size)

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        """Blocks that hold the sequence's first tokens already; never the last token, which must be computed
        to know what follows it."""
        prefix: list[int] = []
        for hash_ in self._hashes_of(sequence)[: (len(sequence.tokens) - 1) // self.block_size]:
            if hash_ not in self._block_of:
                break
            prefix.append(self._block_of[hash_])
        return prefix

    def _hashes_of(self, sequence: Sequence) -> list[bytes]:
        """Of its full blocks, in order; each depends on all tokens before."""
        hashes, size = sequence.block_hashes, self.block_size
        model = sequence.request.model
        for start in range(len(hashes) * size, len(sequence.tokens) - size + 1, size):
            parent = hashes[-1] if hashes else f"{model.tenant}\0{model.digest}".encode()
            tokens = array("q", sequence.tokens[start : start + size])
            hashes.append(sha256(parent + tokens.tobytes()).digest())
        return hashes

    def _take(self) -> int:
        """A free block, or the cached one that was used least recently, for one user."""
        if self._free:
            block = self._free.pop()
        else:
            block, _ = self._cached.popitem(last=False)
            self._uncache(block)
        self._ref_counts[block] = 1
        return block

    def _uncache(self, block: int) -> None:
        """Take the block out of the prefix cache."""
        if (hash_ := self._hashes.pop(block, None)) is not None:
            del self._block_of[hash_]
