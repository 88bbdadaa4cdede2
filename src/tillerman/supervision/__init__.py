"""Process supervision: starts, confines and kills every program of a session.

Every program is spawned through this package. `client` is the harness side: `WardenClient.start`,
`.spawn`, `.run`, `.rejoin`, `sweep`, `probe`. `protocol.launch_warden` starts the warden process
before any heavy import. The code in `warden` runs in that process and uses only the standard
library: `warden` serves one session, `keeper` is the parent of one program, `output_pump` writes
the program's output to files.
"""
