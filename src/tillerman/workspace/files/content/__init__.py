"""Contents of files: text, images and archives, with secrets redacted."""
