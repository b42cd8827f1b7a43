"""The config: one strict YAML file, checked whole, becomes one frozen fleet (CONF-1, CONF-2).

Callers use `load` or `examine`, `find_config` and `resolve_paths`; the other modules are their parts.
"""
