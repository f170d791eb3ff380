package klamm.kafka;

import java.util.Arrays;
import java.util.function.BiPredicate;
import java.util.function.UnaryOperator;

/**
 * An immutable map of names. A change copies the few nodes on the way to the name and shares the rest, so a reader of
 * the map before is never disturbed, and no reader needs a lock. Few objects lie on the way of a look-up, since most of
 * them are in no cache of the processor.
 *
 * A node is a leaf of some names, or a branch by five bits of their hashes.
 */
final class Names<V> {
    private static final int BITS = 5;
    private static final int WIDTH = 1 << BITS;
    private static final int MOST_OF_LEAF = 48;
    private static final Names<?> EMPTY = new Names<>(new int[0], new Object[0], 0);

    private final int count;
    /** Of a leaf's names; null in a branch. */
    private final int[] hashes;
    /** A leaf's names and values by turns; a branch's nodes, null where there is none. */
    private final Object[] slots;

    private Names(int[] hashes, Object[] slots, int count) {
        this.hashes = hashes;
        this.slots = slots;
        this.count = count;
    }

    @SuppressWarnings("unchecked")
    static <V> Names<V> empty() {
        return (Names<V>) EMPTY;
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** Null if the name has no value. */
    @SuppressWarnings("unchecked")
    V get(String name) {
        int hash = spread(name.hashCode());
        Names<V> node = this;
        for (int rest = hash; node.hashes == null; rest >>>= BITS) {
            node = (Names<V>) node.slots[rest & WIDTH - 1];
            if (node == null) {
                return null;
            }
        }
        int[] all = node.hashes;
        for (int at = 0; at < all.length; at++) {
            if (all[at] == hash && node.slots[2 * at].equals(name)) {
                return (V) node.slots[2 * at + 1];
            }
        }
        return null;
    }

    private static int spread(int hash) {
        return hash ^ hash >>> 16;
    }

    /** This map, but with another value for a name; null takes it away. */
    Names<V> with(String name, V value) {
        return with(name, spread(name.hashCode()), 0, value);
    }

    @SuppressWarnings("unchecked")
    private Names<V> with(String name, int hash, int depth, V value) {
        if (hashes != null) {
            return withInLeaf(name, hash, depth, value);
        }
        int slot = hash >>> depth & WIDTH - 1;
        Names<V> before = slots[slot] == null ? empty() : (Names<V>) slots[slot];
        Names<V> after = before.with(name, hash, depth + BITS, value);
        int total = count - before.count + after.count;
        if (total == 0) {
            return empty();
        }
        Object[] changed = slots.clone();
        changed[slot] = after.isEmpty() ? null : after;
        return new Names<>(null, changed, total);
    }

    private Names<V> withInLeaf(String name, int hash, int depth, V value) {
        int at = 0;
        while (at < count && (hashes[at] != hash || !slots[2 * at].equals(name))) {
            at++;
        }
        if (at < count) {
            return value == null ? without(at) : replaced(at, value);
        }
        if (value == null) {
            return this;
        }
        // Names whose whole hash is the same stay in one leaf.
        if (count >= MOST_OF_LEAF && depth < Integer.SIZE) {
            return split(depth).with(name, hash, depth, value);
        }
        int[] newHashes = Arrays.copyOf(hashes, count + 1);
        Object[] newSlots = Arrays.copyOf(slots, 2 * count + 2);
        newHashes[count] = hash;
        newSlots[2 * count] = name;
        newSlots[2 * count + 1] = value;
        return new Names<>(newHashes, newSlots, count + 1);
    }

    private Names<V> replaced(int at, V value) {
        Object[] newSlots = slots.clone();
        newSlots[2 * at + 1] = value;
        return new Names<>(hashes, newSlots, count);
    }

    private Names<V> without(int at) {
        if (count == 1) {
            return empty();
        }
        int last = count - 1;
        int[] newHashes = Arrays.copyOf(hashes, last);
        Object[] newSlots = Arrays.copyOf(slots, 2 * last);
        if (at < last) {
            newHashes[at] = hashes[last];
            newSlots[2 * at] = slots[2 * last];
            newSlots[2 * at + 1] = slots[2 * last + 1];
        }
        return new Names<>(newHashes, newSlots, last);
    }

    @SuppressWarnings("unchecked")
    private Names<V> split(int depth) {
        Names<V> branch = new Names<>(null, new Object[WIDTH], 0);
        for (int at = 0; at < count; at++) {
            branch = branch.with((String) slots[2 * at], hashes[at], depth, (V) slots[2 * at + 1]);
        }
        return branch;
    }

    /** The same names with other values. */
    @SuppressWarnings("unchecked")
    Names<V> mapped(UnaryOperator<V> change) {
        Object[] changed = slots.clone();
        for (int at = hashes == null ? 0 : 1; at < changed.length; at += hashes == null ? 1 : 2) {
            if (hashes != null) {
                changed[at] = change.apply((V) changed[at]);
            } else if (changed[at] != null) {
                changed[at] = ((Names<V>) changed[at]).mapped(change);
            }
        }
        return new Names<>(hashes, changed, count);
    }

    /** Whether this holds for any name and its value; in no order that may be relied on. */
    @SuppressWarnings("unchecked")
    boolean any(BiPredicate<String, V> test) {
        if (hashes == null) {
            for (Object node : slots) {
                if (node != null && ((Names<V>) node).any(test)) {
                    return true;
                }
            }
            return false;
        }
        for (int at = 0; at < count; at++) {
            if (test.test((String) slots[2 * at], (V) slots[2 * at + 1])) {
                return true;
            }
        }
        return false;
    }
}
