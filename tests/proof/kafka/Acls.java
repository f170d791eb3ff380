import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.tools.AclCommand;

/**
 * kafka-acls, one command a line of standard input, in one JVM. Words and texts are in base64, each with a dot behind
 * it.
 *
 * Arguments: the broker's address, and a file of its client's properties. A line that begins with `!` is a command, and
 * is answered by its exit code, standard output and standard error; any other by all ACLs, seven texts each.
 */
public class Acls {
    /** The tool has ended. What it does on its way out is of no interest. */
    private static final class Ended extends RuntimeException {}

    private static final PrintStream ANSWERS = System.out;
    private static ByteArrayOutputStream out;
    private static ByteArrayOutputStream err;
    private static String answer;

    public static void main(String[] arguments) throws Exception {
        Properties client = Utils.loadProps(arguments[1]);
        client.put("bootstrap.servers", arguments[0]);
        Exit.setExitProcedure((code, message) -> end(code));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Admin admin = Admin.create(client)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                ANSWERS.println(line.startsWith("!") ? run(line.substring(1, line.length() - 1)) : acls(admin));
            }
        }
    }

    private static String run(String line) {
        String[] words = Arrays.stream(line.split("\\.", -1)).map(Acls::decoded).toArray(String[]::new);
        answer = null;
        out = new ByteArrayOutputStream();
        err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        try {
            AclCommand.main(words);
            end(0);
        } catch (Ended ended) {
            // Its answer stands.
        }
        return answer;
    }

    private static void end(int code) {
        // The tool takes our exception for a failure, and would end once more.
        if (answer == null) {
            String said = out.toString(StandardCharsets.UTF_8);
            String refused = err.toString(StandardCharsets.UTF_8);
            answer = encoded(String.valueOf(code)) + encoded(said) + encoded(refused);
        }
        throw new Ended();
    }

    private static String acls(Admin admin) throws Exception {
        return admin.describeAcls(AclBindingFilter.ANY).values().get().stream().flatMap(Acls::fields).map(Acls::encoded)
            .collect(Collectors.joining());
    }

    private static Stream<String> fields(AclBinding acl) {
        return List.of(acl.pattern().resourceType().name(), acl.pattern().name(), acl.pattern().patternType().name(),
            acl.entry().principal(), acl.entry().host(), acl.entry().operation().name(),
            acl.entry().permissionType().name()).stream();
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)) + ".";
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }
}
