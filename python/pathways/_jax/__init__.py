"""The only folder that may use jax's private names.

May import no other room.

    seams.py              lists every private name that Pathways uses, and the behaviour if jax lacks it
    public.py             reimplements private functions of jax with its public ones
    compilation.py        hooks compilation, for the modules that rewrite programs or inspect executables
    placement.py          reads where arrays are
    virtual_devices.py    hides the devices of virtual slices
    colocated.py          the host's half of colocated Python
    after_import.py       calls a function once a module has been imported
    mlir_context.py       shares one MLIR context among the computations of a program
    portable_programs.py  writes programs for older versions of StableHLO
"""
