// Addresses of our own processes, as people write them: "tcp:HOST:PORT", "HOST:PORT", "unix:PATH", "unix:@NAME".
//
// Pure text: nothing here opens a socket or asks a name server. An IPv6 host stands in brackets: "tcp:[::1]:8470".
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

// INVALID_ARGUMENT, naming the accepted forms.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// The normal form, which ParseAddress accepts: "tcp:HOST:PORT" or "unix:PATH".
std::string ToString(const Address& address);

}  // namespace pw::net
