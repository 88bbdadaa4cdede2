"""What runs inside the mock's child process. Stdlib only: it never imports tillerman."""
