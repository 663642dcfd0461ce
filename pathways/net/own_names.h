// The names and addresses by which programs may call a server of this machine, for its certificate and to recognize its own name in requests.
#pragma once

#include <string>
#include <vector>

namespace pw::net {

// Returns names and addresses without ports, IPv6 addresses without brackets, each once. `host`: that of the address on which the server listens.
// The loopback's are always among them, because tunnels end there. If `host` is a wildcard, so are this machine's name and all its addresses;
// else `host` itself.
std::vector<std::string> NamesOfListener(const std::string& host);

}  // namespace pw::net
