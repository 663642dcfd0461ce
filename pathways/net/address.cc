#include "pathways/net/address.h"

#include <sys/un.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pw::net {
namespace {

constexpr absl::string_view kForms = "write tcp:HOST:PORT, HOST:PORT, unix:PATH or unix:@NAME (an IPv6 host in brackets)";
// One byte of sun_path is the terminating zero, or the leading zero of an abstract name.
constexpr size_t kMaxPath = sizeof(sockaddr_un{}.sun_path) - 1;

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an address: ", why, "; ", kForms));
}

absl::StatusOr<Address> ParseUnix(absl::string_view text, absl::string_view path) {
  if (path.empty() || path == "@") return Bad(text, "the path is empty");
  if (path.size() > kMaxPath) return Bad(text, absl::StrCat("the path is longer than ", kMaxPath, " bytes"));
  if (absl::StrContains(path, '\0')) return Bad(text, "the path contains a zero byte");
  Address address;
  address.kind = Address::Kind::kUnix;
  address.path = std::string(path);
  return address;
}

absl::StatusOr<Address> ParseTcp(absl::string_view text, absl::string_view rest) {
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return Bad(text, "the port is missing");
  absl::string_view host = rest.substr(0, colon);
  const absl::string_view port = rest.substr(colon + 1);
  if (absl::StartsWith(host, "[")) {
    if (!absl::EndsWith(host, "]")) return Bad(text, "the bracket is not closed");
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ':')) {
    return Bad(text, "the host contains a colon");
  }
  if (host.empty()) return Bad(text, "the host is missing");
  if (absl::StrContains(host, '\0')) return Bad(text, "the host contains a zero byte");
  uint32_t number = 0;
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!digits || !absl::SimpleAtoi(port, &number) || number > 65535) {
    return Bad(text, "the port is not a number from 0 to 65535");
  }
  Address address;
  address.host = std::string(host);
  address.port = static_cast<uint16_t>(number);
  return address;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseUnix(text, rest);
  absl::ConsumePrefix(&rest, "tcp:");
  return ParseTcp(text, rest);
}

std::string ToString(const Address& address) {
  if (address.kind == Address::Kind::kUnix) return absl::StrCat("unix:", address.path);
  const bool v6 = absl::StrContains(address.host, ':');
  return absl::StrCat("tcp:", v6 ? "[" : "", address.host, v6 ? "]" : "", ":", address.port);
}

}  // namespace pw::net
