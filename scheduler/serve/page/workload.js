// The form of a workload, and the manifest that it writes: one pod, a Job of several, or a gang.

/** The fields of the form. @type {{key: string, label: string, type: string, value: string}[]} */
export const WORKLOAD = [
  { key: "pods", label: "Pods", type: "number", value: "1" },
  { key: "cpu", label: "CPU each", type: "text", value: "4" },
  { key: "memory", label: "Memory each", type: "text", value: "8Gi" },
  { key: "gpu", label: "GPUs each", type: "number", value: "0" },
  { key: "gang", label: "All or none", type: "checkbox", value: "" },
  { key: "rack", label: "In one rack", type: "checkbox", value: "" },
];
const RACK = "topology.trellis.dev/rack";

/** @param {Record<string, any>} asked the fields by key @param {string[]} resources what the nodes offer @returns {string} */
export function manifestOf(asked, resources) {
  const gpu = resources.find((one) => one.endsWith("/gpu")) ?? "nvidia.com/gpu";
  const amounts = [["cpu", asked.cpu], ["memory", asked.memory], [gpu, Number(asked.gpu) ? asked.gpu : ""]].filter(([, value]) => value);
  const listed = `{${amounts.map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(", ")}}`;
  const pods = Math.max(1, Number(asked.pods) || 1);
  const isGroup = asked.gang || asked.rack;
  const group = !isGroup ? "" : `apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: what-if, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: ${pods}}}
${asked.rack ? `  schedulingConstraints: {topology: [{key: ${RACK}}]}\n` : ""}---
`;
  return `${group}apiVersion: batch/v1
kind: Job
metadata: {name: what-if, namespace: default}
spec:
  parallelism: ${pods}
  completions: ${pods}
  template:
    spec:
      schedulerName: trellis
      restartPolicy: Never
${isGroup ? "      schedulingGroup: {podGroupName: what-if}\n" : ""}      containers:
        - name: main
          image: main
          resources: {requests: ${listed}, limits: ${listed}}
`;
}
