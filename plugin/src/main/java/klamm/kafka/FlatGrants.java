package klamm.kafka;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * What a principal with few patterns may do, in one array: a decision goes to two or three places of memory, where the
 * way by {@link Patterns} goes to a dozen, each of which is in no cache of the processor.
 *
 * First its shape, that is how many prefixes (high half) and slots (low half) there are; then the prefixes, from the
 * shortest on; then the slots, open addressing by hash, for the literal names; then their texts, eight characters a
 * long. Prefixes and slots are pairs of a key and a mask. A key is, from the highest bit on: 32 of the text's hash, 4
 * of the type, 8 of the length, 20 of where the text is. The literal {@code *} is a prefix of length 0.
 */
final class FlatGrants {
    /** What depends on the client's address or on the time is not told here. */
    static final long IT_DEPENDS = Long.MIN_VALUE;
    private static final int MOST_PATTERNS = 128;
    private static final int MOST_PREFIXES = 64;
    private static final int MOST_LENGTH = 0xFF;
    private static final int MOST_CHARACTER = 0xFF;
    private static final int HASH = 32;
    private static final int HALF = 16;
    private static final int SLOTS = (1 << HALF) - 1;
    private static final int TYPE = 28;
    private static final int LENGTH = 20;
    private static final long AT = (1 << LENGTH) - 1;
    private static final int SPREAD = 0x9E3779B9;

    static {
        // INVARIANT: a type has 4 bits; one more would read as another text's hash.
        if (Index.TYPES > 1 << HASH - TYPE) {
            throw new ExceptionInInitializerError("a type takes more than its bits of a key");
        }
    }

    private record Entry(int type, String text, long mask) {}

    private FlatGrants() {}

    /** Null if there are too many patterns, or one has a long name or one beyond Latin-1. */
    static long[] of(Patterns<Grants>[] types) {
        List<Entry> literals = new ArrayList<>();
        List<Entry> prefixes = new ArrayList<>();
        for (int type = 0; type < types.length; type++) {
            if (types[type] != null && !isListed(type, types[type], literals, prefixes)) {
                return null;
            }
        }
        prefixes.sort(Comparator.comparingInt(entry -> entry.text.length()));
        int slots = literals.size() + literals.size() / 2 + 1;
        int first = 1 + 2 * prefixes.size();
        int size = first + 2 * slots;
        for (List<Entry> each : List.of(literals, prefixes)) {
            for (Entry entry : each) {
                size += longs(entry.text);
            }
        }
        long[] flat = new long[size];
        flat[0] = prefixes.size() << HALF | slots;
        int text = first + 2 * slots;
        for (int number = 0; number < prefixes.size(); number++) {
            text = write(flat, 1 + 2 * number, prefixes.get(number), text);
        }
        for (Entry entry : literals) {
            int slot = firstSlot(entry.text.hashCode(), slots);
            while (flat[first + 2 * slot] != 0) {
                slot = slot + 1 == slots ? 0 : slot + 1;
            }
            text = write(flat, first + 2 * slot, entry, text);
        }
        return flat;
    }

    private static boolean isListed(int type, Patterns<Grants> patterns, List<Entry> literals, List<Entry> prefixes) {
        boolean tooMany = patterns.literals().any((name, grants) -> {
            if (name.equals(Acl.WILDCARD)) {
                prefixes.add(new Entry(type, "", grants.flatMask()));
            } else {
                literals.add(new Entry(type, name, grants.flatMask()));
            }
            return literals.size() > MOST_PATTERNS || !isPlain(name, name.length());
        });
        return !tooMany && !patterns.prefixes().any(node -> {
            if (node.value != null) {
                prefixes.add(new Entry(type, node.key.substring(0, node.end), node.value.flatMask()));
            }
            return prefixes.size() > MOST_PREFIXES || !isPlain(node.key, node.end);
        });
    }

    private static boolean isPlain(String text, int length) {
        boolean isPlain = length <= MOST_LENGTH;
        for (int at = 0; isPlain && at < length; at++) {
            isPlain = text.charAt(at) <= MOST_CHARACTER;
        }
        return isPlain;
    }

    private static int longs(String text) {
        return text.length() + Long.BYTES - 1 >> 3;
    }

    private static int write(long[] flat, int pair, Entry entry, int text) {
        flat[pair] = key(entry.text.hashCode(), entry.type, entry.text.length()) | text;
        flat[pair + 1] = entry.mask;
        for (int at = 0; at < entry.text.length(); at++) {
            flat[text + (at >> 3)] |= (long) entry.text.charAt(at) << ((at & 7) << 3);
        }
        return text + longs(entry.text);
    }

    private static long key(int hash, int type, int length) {
        return (long) hash << HASH | (long) type << TYPE | (long) length << LENGTH;
    }

    private static int firstSlot(int hash, int slots) {
        return (int) ((hash * SPREAD & 0xFFFFFFFFL) * slots >>> HASH);
    }

    /**
     * What holds on this name, of a type that {@link Index#isType} knows; negative ({@link #IT_DEPENDS}) if that depends
     * on the client or the time.
     *
     * @param shape of the array, from where the caller is already: to wait for the array's own is to wait once more
     */
    static long mask(long[] flat, int shape, int type, String name) {
        int prefixes = shape >>> HALF;
        return literalMask(flat, 1 + 2 * prefixes, shape & SLOTS, type, name) | prefixMask(flat, prefixes, type, name);
    }

    private static long literalMask(long[] flat, int first, int slots, int type, String name) {
        int length = name.length();
        if (length > MOST_LENGTH) {
            return 0;
        }
        int hash = name.hashCode();
        long wanted = key(hash, type, length);
        // There is always a slot without a key.
        for (int slot = firstSlot(hash, slots); flat[first + 2 * slot] != 0; slot = slot + 1 == slots ? 0 : slot + 1) {
            long key = flat[first + 2 * slot];
            if ((key & ~AT) == wanted && isText(flat, (int) (key & AT), name, length)) {
                return flat[first + 2 * slot + 1];
            }
        }
        return 0;
    }

    private static long prefixMask(long[] flat, int prefixes, int type, String name) {
        long mask = 0;
        int hash = 0;
        int hashed = 0;
        for (int number = 0; number < prefixes; number++) {
            long key = flat[1 + 2 * number];
            int length = (int) (key >>> LENGTH) & MOST_LENGTH;
            if (length > name.length()) {
                break;
            }
            for (; hashed < length; hashed++) {
                hash = 31 * hash + name.charAt(hashed);
            }
            if ((key & ~AT) == key(hash, type, length) && isText(flat, (int) (key & AT), name, length)) {
                mask |= flat[2 + 2 * number];
            }
        }
        return mask;
    }

    /** INVARIANT: texts are compared, whatever their hashes: others choose names that have the same. */
    private static boolean isText(long[] flat, int text, String name, int length) {
        for (int at = 0; at < length; at++) {
            if ((flat[text + (at >> 3)] >>> ((at & 7) << 3) & MOST_CHARACTER) != name.charAt(at)) {
                return false;
            }
        }
        return true;
    }
}
