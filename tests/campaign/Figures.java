import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import javax.management.JMException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * What a broker's authorizers say of themselves over JMX. Argument: the port. Each line of standard input is the names
 * of attributes, and is answered by their values, for each authorizer a group; an empty line: nobody answers.
 */
public class Figures {
    public static void main(String[] arguments) throws Exception {
        JMXServiceURL url =
            new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi");
        JMXConnector connector = null;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try {
                if (connector == null) {
                    connector = JMXConnectorFactory.connect(url);
                }
                System.out.println(values(connector.getMBeanServerConnection(), line.split(" ")));
            } catch (IOException | JMException | RuntimeException fault) {
                connector = null;
                System.out.println();
            }
        }
    }

    private static String values(MBeanServerConnection beans, String[] names) throws IOException, JMException {
        Set<ObjectName> found = beans.queryNames(new ObjectName("klamm.kafka:type=KlammAuthorizer,*"), null);
        List<String> groups = new ArrayList<>();
        for (ObjectName each : found) {
            List<String> group = new ArrayList<>();
            for (String name : names) {
                group.add(String.valueOf(beans.getAttribute(each, name)));
            }
            groups.add(String.join(" ", group));
        }
        return String.join(";", groups);
    }
}
