// Addresses of Pathways processes, as users write them: "tcp:HOST:PORT", "HOST:PORT", "unix:PATH", "unix:@NAME".
//
// Parsing is pure: nothing here opens a socket or queries DNS. An IPv6 host is written in brackets: "tcp:[::1]:8470".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::net {

struct Address {
  enum class Kind { kTcp, kUnix };
  Kind kind = Kind::kTcp;
  std::string host;   // kTcp: a name or a number, without brackets
  uint16_t port = 0;  // kTcp
  std::string path;   // kUnix: a file, or "@NAME" in the abstract namespace
};

// Parses `text`. Returns INVALID_ARGUMENT with the accepted forms if it is malformed.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Returns the normal form, which ParseAddress accepts: "tcp:HOST:PORT" or "unix:PATH".
std::string ToString(const Address& address);

}  // namespace pw::net
