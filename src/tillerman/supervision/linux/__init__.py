"""Linux facilities: control groups, pid namespaces, system calls, the process table."""
