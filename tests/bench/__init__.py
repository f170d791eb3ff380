"""`make bench`: everything that Klamm promises about speed and size, measured beside its yardsticks in the same run.

`run` takes the wishes and joins the sections, `section` measures one of them in a process of its own.
"""
