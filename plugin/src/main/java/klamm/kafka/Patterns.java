package klamm.kafka;

import java.util.Arrays;

/**
 * Values of the resource patterns of one type. Immutable: a change makes another one that shares what has not changed.
 *
 * @param wildcard of the literal name {@code *}, which stands for every name
 * @param few length and hash of each prefix, from the shortest on: most names have none of them, which is found here
 *     in one place of memory. Null if there are too many
 */
record Patterns<V>(Names<V> literals, V wildcard, Radix<V> prefixes, long[] few) {
    private static final long[] NONE = {};
    private static final int MOST_FEW = 16;

    /** Null if there is no pattern left. */
    static <V> Patterns<V> with(Patterns<V> before, boolean isPrefix, String name, V value) {
        Patterns<V> from = before == null ? new Patterns<>(Names.empty(), null, Radix.empty(), NONE) : before;
        Patterns<V> changed = isPrefix ? from.withPrefix(name, value) : from.withLiteral(name, value);
        return changed.literals.isEmpty() && changed.prefixes.isEmpty() ? null : changed;
    }

    private Patterns<V> withLiteral(String name, V value) {
        Names<V> changed = literals.with(name, value);
        return new Patterns<>(changed, changed.get(Acl.WILDCARD), prefixes, few);
    }

    private Patterns<V> withPrefix(String name, V value) {
        Radix<V> changed = prefixes.with(name, value);
        boolean isNew = prefixes.get(name) == null;
        if (isNew != (value == null)) {
            return new Patterns<>(literals, wildcard, changed, changedFew(changed, name, isNew));
        }
        return new Patterns<>(literals, wildcard, changed, few);
    }

    private long[] changedFew(Radix<V> changed, String name, boolean isAdded) {
        if (changed.isEmpty()) {
            return NONE;
        }
        if (few == null) {
            return null;
        }
        return isAdded ? added(few, packed(name)) : removed(few, packed(name));
    }

    private static long packed(String prefix) {
        return (long) prefix.length() << Integer.SIZE | prefix.hashCode() & 0xFFFFFFFFL;
    }

    private static long[] added(long[] few, long one) {
        if (few.length == MOST_FEW) {
            return null;
        }
        long[] more = Arrays.copyOf(few, few.length + 1);
        more[few.length] = one;
        Arrays.sort(more);
        return more;
    }

    /** Two prefixes may be packed alike; then one of the two stays. */
    private static long[] removed(long[] few, long one) {
        long[] fewer = Arrays.copyOf(few, few.length - 1);
        int at = Arrays.binarySearch(few, one);
        System.arraycopy(few, at + 1, fewer, at, fewer.length - at);
        return fewer;
    }

    V get(boolean isPrefix, String name) {
        return isPrefix ? prefixes.get(name) : literals.get(name);
    }

    /** Whether any pattern covers this name. */
    boolean covers(String name) {
        return wildcard != null || literals.get(name) != null || hasPrefixOf(name);
    }

    private boolean hasPrefixOf(String name) {
        for (Radix<V> node = prefixesOf(name); node != null; node = node.next(name)) {
            if (node.value != null) {
                return true;
            }
        }
        return false;
    }

    /** Where a walk along a name begins; null if it has none of the prefixes. */
    Radix<V> prefixesOf(String name) {
        return few == null || hasOneOfFew(name) ? prefixes : null;
    }

    /** INVARIANT: false only if no prefix is one of the name, or what denies would not be seen. */
    private boolean hasOneOfFew(String name) {
        int hash = 0;
        int hashed = 0;
        for (long one : few) {
            int length = (int) (one >> Integer.SIZE);
            if (length > name.length()) {
                return false;
            }
            for (; hashed < length; hashed++) {
                hash = 31 * hash + name.charAt(hashed);
            }
            if (hash == (int) one) {
                return true;
            }
        }
        return false;
    }
}
