import java.io.IOException;

/** A service with the sidecar of examples/java in it: Asking URL TOPIC..., a line for each topic. */
class Asking {
    public static void main(String[] arguments) throws Exception {
        Sidecar klamm = new Sidecar(arguments[0]);
        for (int n = 1; n < arguments.length; n++) {
            try {
                boolean allowed = klamm.allowed("User:alice", "READ", "TOPIC", arguments[n]);
                System.out.println(allowed ? "ALLOWED" : "DENIED");
            } catch (IOException none) {
                System.out.println("no decision");
            }
        }
    }
}
