"""The only folder that may use jax's private names.

    seams.py        lists every private name that Pathways uses, and the behaviour if jax lacks it
    public.py       reimplements private functions of jax with its public ones
    compilation.py  hooks compilation, for the modules that rewrite programs or inspect executables
"""
