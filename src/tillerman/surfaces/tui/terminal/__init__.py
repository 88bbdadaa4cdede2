"""The terminal behind the screen: driver, colors, sanitized output, bell."""
