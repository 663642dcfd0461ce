#include "pathways/base/request_name.h"

namespace pw {
namespace {

constexpr int kNumberBits = 63;
constexpr int kPrefixBits = 6;
static_assert(RequestName::kStep == uint64_t{1} << kPrefixBits);
constexpr int kShortSessionBits = 2, kShortPrefixBits = 3;
constexpr int kKinds = 8, kSessionWidths = 4;
constexpr int kOwn = 0;
constexpr int kCountBits[kKinds] = {23, 2, 6, 10, 14, 18, 23, 28};
constexpr int kSessionBits[kSessionWidths] = {2, 8, 16, 34};
static_assert(RequestName::kOwnBlock == uint64_t{1} << kCountBits[kOwn]);
static_assert(RequestName::kMostCounts == uint64_t{1} << kCountBits[kKinds - 1]);

constexpr bool Fits(uint64_t value, int bits) { return bits >= 64 || value >> bits == 0; }
constexpr uint64_t Low(uint64_t value, int bits) { return value & ((uint64_t{1} << bits) - 1); }

// Returns the first width that has room for the session; kSessionWidths if none has.
int SessionWidth(uint64_t session) {
  int width = 0;
  while (width < kSessionWidths && !Fits(session, kSessionBits[width])) ++width;
  return width;
}

// Returns the first kind with room for the count; kKinds if none has.
int KindOf(uint64_t last, bool own) {
  if (own) return Fits(last, kCountBits[kOwn]) ? kOwn : kKinds;
  int kind = kOwn + 1;
  while (kind < kKinds && !Fits(last, kCountBits[kind])) ++kind;
  return kind;
}

}  // namespace

std::optional<uint64_t> RequestName::Number(uint64_t last) const {
  if (session.v == 0 || (request == 0 && !own)) return std::nullopt;
  if (!own && last == 0 && Fits(session.v, kShortSessionBits) && Fits(request, kNumberBits - kShortPrefixBits))
    return request << kShortPrefixBits | session.v << 1;
  const int width = SessionWidth(session.v), kind = KindOf(last, own);
  if (width == kSessionWidths || kind == kKinds) return std::nullopt;
  const int at_session = kPrefixBits + kCountBits[kind], at_request = at_session + kSessionBits[width];
  if (at_request > kNumberBits || !Fits(request, kNumberBits - at_request)) return std::nullopt;
  return (at_request == kNumberBits ? 0 : request << at_request) | session.v << at_session | count << kPrefixBits |
         static_cast<uint64_t>(kind) << 3 | static_cast<uint64_t>(width) << 1 | 1;
}

std::optional<RequestName> RequestName::Read(uint64_t number) {
  if (!Fits(number, kNumberBits)) return std::nullopt;
  RequestName name;
  if ((number & 1) == 0) {
    name.session = SessionId(Low(number >> 1, kShortSessionBits));
    name.request = number >> kShortPrefixBits;
  } else {
    const auto width = static_cast<int>(Low(number >> 1, 2)), kind = static_cast<int>(Low(number >> 3, 3));
    const int at_session = kPrefixBits + kCountBits[kind], at_request = at_session + kSessionBits[width];
    if (at_request > kNumberBits) return std::nullopt;
    name.count = Low(number >> kPrefixBits, kCountBits[kind]);
    name.session = SessionId(Low(number >> at_session, kSessionBits[width]));
    name.request = number >> at_request;
    name.own = kind == kOwn;
  }
  if (name.session.v == 0 || (name.request == 0 && !name.own)) return std::nullopt;
  return name;
}

bool RequestName::HasRoom(uint64_t number, uint64_t more) {
  const std::optional<RequestName> name = Read(number);
  if (!name.has_value()) return false;
  if (more == 0) return true;
  if ((number & 1) == 0) return false;
  const uint64_t most = uint64_t{1} << kCountBits[Low(number >> 3, 3)];
  return more < most - name->count;
}

bool IsJointOp(uint64_t op) {
  const std::optional<RequestName> name = RequestName::Read(op);
  return name.has_value() && (name->count & 1) != 0;
}

SessionId SessionOfName(uint64_t number) {
  const std::optional<RequestName> name = RequestName::Read(number);
  return name.has_value() ? name->session : SessionId();
}

}  // namespace pw
