#include "pathways/session/absence.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/net/address.h"
#include "pathways/net/transport.h"

namespace pw::session {
namespace {

// Strips ::ffff:, with which a socket for both versions of IP names a peer of version 4.
std::string Plain(const std::string& name) {
  const absl::StatusOr<net::Address> address = net::ParseAddress(name);
  if (!address.ok()) return "";
  return absl::StrCat(absl::StripPrefix(address->host, "::ffff:"), " ", address->port);
}

bool IsDirect(const EndedConnection& connection) {
  const std::string there = Plain(connection.far_end);
  return !there.empty() && there == Plain(connection.far_end_here);
}

}  // namespace

absl::Duration KeptAfter(const EndedConnection& connection, absl::Duration grace) {
  if (!connection.breakable) return absl::ZeroDuration();
  if (net::ClosedByPeer(connection.reason) && IsDirect(connection)) return std::min(grace, kMomentToReturn);
  return grace;
}

}  // namespace pw::session
