package klamm.kafka;

import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicInteger;
import javax.management.JMException;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Figures over JMX. */
final class Beans {
    private static final Logger LOG = LoggerFactory.getLogger(Beans.class);
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private Beans() {}

    /** Its name; null if there are no figures, which stops nothing. */
    static ObjectName register(Object bean, String type) {
        try {
            ObjectName name = new ObjectName("klamm.kafka:type=" + type + ",instance=" + INSTANCES.incrementAndGet());
            ManagementFactory.getPlatformMBeanServer().registerMBean(bean, name);
            return name;
        } catch (JMException fault) {
            LOG.warn("there are no figures over JMX: {}", fault.toString());
            return null;
        }
    }

    static void unregister(ObjectName name) {
        if (name == null) {
            return;
        }
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(name);
        } catch (JMException gone) {
            LOG.debug("the figures were gone", gone);
        }
    }
}
