"""Everything that spawns goes through here.

`tree` is the harness's side: `Warden.start`, `Warden.spawn`, `Warden.run`, `Warden.rejoin`,
`sweep`, `probe`. `launch` starts the warden process before anything heavy is imported. The rest
runs in that process, on the standard library alone: `warden` serves one session, `keeper` is the
parent of one program, `outflow` moves what it writes into files.
"""
