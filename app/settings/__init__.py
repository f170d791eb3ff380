"""settings: what has the operator set?

Read once, validated, frozen: flags, KLAMM_ variables, files of secrets, `klamm.toml`. No I/O but reading these.
May import: core, formats. Called by: cli, which hands the values on.
"""
