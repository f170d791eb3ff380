"""pipeline/hygiene: which ACLs can go?

Unused, shadowed, detached and over-broad ACLs, and commands that mend them. May import: pipeline/access and below.
Called by: report and jobs.
"""
