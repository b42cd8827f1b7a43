"""The deadman: the process outside the daemon that ends a window on its host, whatever happened (WIN-1).

A process of its own with the standard library only. Arming copies these files into `windows/<id>/program`,
and `python -I -S windows/<id>/program windows/<id>` runs the copy: no upgrade of the package reaches it. It
knows the written restore (`restore.json`) and nothing else: no config, no store, no daemon.

`when` decides when it acts, `restore` what is done then and in which order; `written` is the format of its
files. The other modules are its hands.
"""
