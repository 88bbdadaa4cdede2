"""Intercepts every execve of a session's programs and denies those that a rule denies.

A seccomp filter in the program sends its execve calls to the gate process (`gate`), which reads the
real arguments (`exec_call`), determines which program would run (`readings`), and refuses it when
the session's rules deny it (`command_rules`). `client` is the warden side, and `settings` is what
the harness sends. This guards against mistakes and shell tricks; it is not a security boundary: a
program written to evade it can change its arguments after they were read.
"""
