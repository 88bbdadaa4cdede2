"""Judges every execve of a session's programs by the rules that deny commands.

A seccomp filter in the program hands its execve calls to the gate process (`gate`), which reads
the real arguments (`exec_call`), finds out which program would run (`readings`), and refuses it
when the session's rules deny it (`command_rules`). `client` is the warden's side of it, and
`settings` what the harness sends. A guard rail against mistakes and shell tricks: a program
written to evade it can change its arguments after they were read.
"""
