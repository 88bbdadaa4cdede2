"""Code of the mock agent's child process. Stdlib only: it never imports tillerman."""
