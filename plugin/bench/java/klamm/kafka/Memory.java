package klamm.kafka;

import org.apache.kafka.server.authorizer.Authorizer;

/** What an ACL of the million costs in heap. Writes a number of bytes. Argument: a side. */
public final class Memory {
    private Memory() {}

    public static void main(String[] arguments) throws Exception {
        Side side = Side.valueOf(arguments[0]);
        long before = used();
        Authorizer authorizer = side.of(Scenario.million().acls());
        System.out.println((used() - before) / authorizer.aclCount());
    }

    private static long used() throws InterruptedException {
        for (int round = 0; round < 3; round++) {
            System.gc();
            Thread.sleep(100);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
