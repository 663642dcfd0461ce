"""The shape of a cluster on one machine: islands x hosts per island x devices per host."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Shape:
    islands: int = 1
    hosts: int = 1      # per island
    devices: int = 4    # per host

    @classmethod
    def parse(cls, text):
        """Parses "2x1x4". Raises ValueError, which names the expected form."""
        match = re.fullmatch(r"\s*(\d+)\s*x\s*(\d+)\s*x\s*(\d+)\s*", text or "", re.IGNORECASE)
        if not match:
            raise ValueError(f"'{text}' is not a cluster shape: expected ISLANDSxHOSTSxDEVICES, such as 2x1x4")
        return cls(*map(int, match.groups())).checked()

    def checked(self):
        for name, value, limit in (("islands", self.islands, 64), ("hosts", self.hosts, 64), ("devices", self.devices, 1024)):
            if not 1 <= value <= limit:
                raise ValueError(f"{name} must be between 1 and {limit} on one machine, not {value}")
        return self

    def placement(self):
        """Returns (island name, host name) of every host, in starting order."""
        names = []
        for island in range(self.islands):
            for _ in range(self.hosts):
                names.append((f"island{island}", f"host{len(names)}"))
        return names

    def __str__(self):
        return f"{self.islands}x{self.hosts}x{self.devices}"
