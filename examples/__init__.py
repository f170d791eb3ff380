"""Examples: ACLs and settings to begin with, and a made-up company whose ACLs the pipeline looks at."""
