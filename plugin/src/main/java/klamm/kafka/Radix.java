package klamm.kafka;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.function.Predicate;

/**
 * An immutable tree of prefixes: those of a name are found in one walk along the name. A change copies the nodes from
 * the root to the prefix and shares the rest, so a reader of the tree before is never disturbed, and needs no lock.
 *
 * A node stands for the first {@code end} characters of {@code key}.
 */
final class Radix<V> {
    private static final char[] NO_EDGES = {};
    private static final Radix<?>[] NO_CHILDREN = {};
    private static final Radix<?> EMPTY = new Radix<>("", 0, null, NO_EDGES, NO_CHILDREN);

    final String key;
    final int end;
    /** Null unless this very text is a prefix. */
    final V value;
    private final char[] edges;
    private final Radix<?>[] children;

    private Radix(String key, int end, V value, char[] edges, Radix<?>[] children) {
        this.key = key;
        this.end = end;
        this.value = value;
        this.edges = edges;
        this.children = children;
    }

    @SuppressWarnings("unchecked")
    static <V> Radix<V> empty() {
        return (Radix<V>) EMPTY;
    }

    boolean isEmpty() {
        return children.length == 0 && value == null;
    }

    /** The child on the way to this name, if the name has all of the child's text; null if there is none. */
    @SuppressWarnings("unchecked")
    Radix<V> next(String name) {
        if (end == name.length()) {
            return null;
        }
        int at = find(name.charAt(end));
        if (at < 0) {
            return null;
        }
        Radix<V> child = (Radix<V>) children[at];
        if (child.end > name.length() || !child.key.regionMatches(end + 1, name, end + 1, child.end - end - 1)) {
            return null;
        }
        return child;
    }

    /** Null if this very text is no prefix. */
    V get(String prefix) {
        Radix<V> node = this;
        while (node != null && node.end < prefix.length()) {
            node = node.next(prefix);
        }
        return node == null ? null : node.value;
    }

    /** This tree, but with another value for a prefix; null takes it away. */
    Radix<V> with(String name, V value) {
        List<Radix<V>> path = new ArrayList<>();
        Radix<V> node = this;
        while (node != null) {
            path.add(node);
            node = node.next(name);
        }
        Radix<V> last = path.get(path.size() - 1);
        Radix<V> changed;
        if (last.end == name.length()) {
            changed = new Radix<>(last.key, last.end, value, last.edges, last.children);
        } else if (value == null) {
            return this;
        } else {
            changed = last.withLeaf(name, value);
        }
        for (int at = path.size() - 2; at >= 0; at--) {
            changed = path.get(at).withChild(name.charAt(path.get(at).end), changed.reduced());
        }
        return changed;
    }

    private Radix<V> withLeaf(String name, V value) {
        Radix<V> leaf = new Radix<>(name, name.length(), value, NO_EDGES, NO_CHILDREN);
        int at = find(name.charAt(end));
        if (at < 0) {
            return withChild(name.charAt(end), leaf);
        }
        Radix<?> child = children[at];
        int common = end + 1;
        int most = Math.min(child.end, name.length());
        while (common < most && child.key.charAt(common) == name.charAt(common)) {
            common++;
        }
        boolean ends = common == name.length();
        Radix<V> fork = new Radix<>(
            name, common, ends ? leaf.value : null, new char[] {child.key.charAt(common)}, new Radix<?>[] {child});
        return withChild(name.charAt(end), ends ? fork : fork.withChild(name.charAt(common), leaf));
    }

    /** The node, or what is left to stand in its place. Only the root may be without value and with one child. */
    @SuppressWarnings("unchecked")
    private Radix<V> reduced() {
        if (value != null || children.length > 1) {
            return this;
        }
        return children.length == 0 ? null : (Radix<V>) children[0];
    }

    private Radix<V> withChild(char edge, Radix<V> child) {
        int at = find(edge);
        char[] newEdges = edges;
        Radix<?>[] newChildren;
        if (at >= 0 && child != null) {
            newChildren = children.clone();
            newChildren[at] = child;
        } else if (at >= 0) {
            newEdges = new char[edges.length - 1];
            newChildren = new Radix<?>[edges.length - 1];
            System.arraycopy(edges, 0, newEdges, 0, at);
            System.arraycopy(edges, at + 1, newEdges, at, newEdges.length - at);
            System.arraycopy(children, 0, newChildren, 0, at);
            System.arraycopy(children, at + 1, newChildren, at, newChildren.length - at);
        } else {
            int to = -at - 1;
            newEdges = new char[edges.length + 1];
            newChildren = new Radix<?>[edges.length + 1];
            System.arraycopy(edges, 0, newEdges, 0, to);
            System.arraycopy(edges, to, newEdges, to + 1, edges.length - to);
            System.arraycopy(children, 0, newChildren, 0, to);
            System.arraycopy(children, to, newChildren, to + 1, edges.length - to);
            newEdges[to] = edge;
            newChildren[to] = child;
        }
        return new Radix<>(key, end, value, newEdges, newChildren);
    }

    private int find(char edge) {
        char[] all = edges;
        if (all.length > 8) {
            return Arrays.binarySearch(all, edge);
        }
        for (int at = 0; at < all.length; at++) {
            if (all[at] >= edge) {
                return all[at] == edge ? at : -at - 1;
            }
        }
        return -all.length - 1;
    }

    /** Whether this holds for any node; in no order that may be relied on. */
    boolean any(Predicate<Radix<V>> test) {
        Deque<Radix<V>> waiting = new ArrayDeque<>();
        waiting.add(this);
        while (!waiting.isEmpty()) {
            Radix<V> node = waiting.removeLast();
            if (test.test(node)) {
                return true;
            }
            node.addChildren(waiting);
        }
        return false;
    }

    @SuppressWarnings("unchecked")
    void addChildren(Deque<Radix<V>> waiting) {
        for (Radix<?> child : children) {
            waiting.add((Radix<V>) child);
        }
    }
}
