#include "pathways/net/own_names.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace pw::net {
namespace {

// Adds the addresses of this machine's interfaces, without those that need the interface's name (fe80::).
void AddInterfaces(std::vector<std::string>* names) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(found, ::freeifaddrs);
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (at->ifa_addr->sa_family == AF_INET) {
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof(text));
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&address)) ::inet_ntop(AF_INET6, &address, text, sizeof(text));
    }
    if (text[0] != '\0') names->push_back(text);
  }
}

}  // namespace

std::vector<std::string> NamesOfListener(const std::string& host) {
  std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"};
  if (host == "0.0.0.0" || host == "::") {
    char own[256] = "";
    if (::gethostname(own, sizeof(own) - 1) == 0 && own[0] != '\0') names.push_back(own);
    AddInterfaces(&names);
  } else {
    names.push_back(host);
  }
  std::vector<std::string> once;
  for (std::string& name : names) {
    if (std::find(once.begin(), once.end(), name) == once.end()) once.push_back(std::move(name));
  }
  return once;
}

}  // namespace pw::net
