"""The command-line flags of the client's program, for functions that read them on the hosts.

Only flags of absl (`absl.flags`), which jax's own libraries use. If a program parses its command line with absl, the flags that it was given have the same
values on the hosts. All others have their defaults: absl refuses to tell values before a command line has been parsed, and a host's process has none.
"""

import sys
import threading

_PROGRAM = "pathways-function"
_lock = threading.RLock()  # several threads load functions
_wanted = {}  # name: arguments that give it its value, until a module has defined the flag
_known = set()  # names of all that have been wanted: each function brings the program's flags
_listening = False


def given():
    """Returns {name: arguments} of the flags that this program was given."""
    flags = sys.modules.get("absl.flags")
    if flags is None or not flags.FLAGS.is_parsed():
        return {}
    found = {}
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if flag.present and name == flag.name:  # not a short name
            text = flag.serialize()
            found[name] = text.split("\n") if isinstance(flag, flags.MultiFlag) else [text]
    return found


def take(arguments):
    """Gives the flags of this process their values: those that modules have defined now, and the others when they define them."""
    global _listening
    try:
        from absl import flags
    except ImportError:
        return  # no function can read any
    with _lock:
        if not _listening:
            _listening = True
            flags.FLAGS.mark_as_parsed()
            _listen(flags)
        _wanted.update({name: words for name, words in arguments.items() if name not in _known})
        _known.update(arguments)
        for name in [name for name in _wanted if name in flags.FLAGS]:
            _set(flags, name)


def _listen(flags):
    define = flags.FlagValues.__setitem__

    def define_and_set(self, name, flag):
        define(self, name, flag)
        if self is flags.FLAGS:
            with _lock:
                _set(flags, name)

    flags.FlagValues.__setitem__ = define_and_set


def _set(flags, name):
    if arguments := _wanted.pop(name, None):
        flags.FLAGS([_PROGRAM, *filter(None, arguments)])
