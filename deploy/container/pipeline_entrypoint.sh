#!/bin/bash
# What the pipeline's image runs: any command, or what Spark's Kubernetes scheduler asks of the pods that it makes,
# `driver` and `executor`, as in Spark's own image (resource-managers/kubernetes in its source); or `submit`, spark-submit in
# cluster mode that fails if the driver does.
set -euo pipefail

case "${1:-}" in
    submit)
        shift
        said="$(mktemp)"
        "$SPARK_HOME/bin/spark-submit" "$@" 2>&1 | tee "$said" || exit 3
        # It ends with 0 however the driver ended (Spark 4.3.0): what counts is what it says of the driver in the end. Where that
        # is no code, 3: 1 means that a job has found something.
        phase="$(grep -oE '^[[:space:]]+phase: [A-Za-z]+$' "$said" | tail -n 1)" || true
        [[ "$phase" != *" Succeeded" ]] || exit 0
        code="$(grep -oE '^[[:space:]]+exit code: [0-9]+$' "$said" | tail -n 1 | grep -oE '[0-9]+$')" || true
        [[ "$phase" == *" Failed" && -n "$code" && "$code" != 0 ]] || exit 3
        exit "$code"
        ;;
    driver)
        shift
        exec "$SPARK_HOME/bin/spark-submit" \
            --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
            --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
            --deploy-mode client "$@"
        ;;
    executor)
        options=()
        # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: options of the JVM, which the scheduler numbers.
        for ((at = 0; ; at++)); do
            name="SPARK_JAVA_OPT_$at"
            [[ -n "${!name+set}" ]] || break
            options+=("${!name}")
        done
        exec "$JAVA_HOME/bin/java" "${options[@]}" \
            "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
            -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}:${SPARK_EXTRA_CLASSPATH:-}" \
            org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
            --driver-url "$SPARK_DRIVER_URL" \
            --executor-id "$SPARK_EXECUTOR_ID" \
            --cores "$SPARK_EXECUTOR_CORES" \
            --app-id "$SPARK_APPLICATION_ID" \
            --hostname "$SPARK_EXECUTOR_POD_IP" \
            --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
            --podName "$SPARK_EXECUTOR_POD_NAME"
        ;;
    *)
        exec "$@"
        ;;
esac
