#include "pathways/controller/names/request_names.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"

namespace pw::controller {
namespace {

constexpr uint64_t kMostIds = RequestName::kMostCounts, kMostOps = RequestName::kMostCounts / 2;

// Returns the first of `count` neighbours as a number with room for them all; none: they do not fit.
std::optional<uint64_t> Numbered(RequestName first, uint64_t count) { return first.Number(first.count + count - 1); }

uint64_t PastTheEnd(uint64_t a, uint64_t b, uint64_t most) { return a > most || b > most ? most + 1 : std::min(a + b, most + 1); }

}  // namespace

NameNeed& NameNeed::operator+=(const NameNeed& more) {
  ids = PastTheEnd(ids, more.ids, kMostIds);
  ops = PastTheEnd(ops, more.ops, kMostOps);
  return *this;
}

NameNeed Larger(const NameNeed& a, const NameNeed& b) { return {std::max(a.ids, b.ids), std::max(a.ops, b.ops)}; }

// A block ends where a field of the names does, so neighbours are in one block.
std::optional<RequestName> OwnNames::Take(uint64_t count, uint64_t block, uint64_t* next) const {
  if (count == 0 || count > block) return std::nullopt;
  uint64_t at = *next;
  if (at % block + count > block) at = (at / block + 1) * block;
  const RequestName first{session_, at / block, at % block, true};
  if (!first.Number().has_value()) return std::nullopt;
  *next = at + count;
  return first;
}

absl::Status OwnNames::CheckRoom(const NameNeed& need) const {
  uint64_t ids = ids_, ops = ops_;
  const bool fits = Take(std::max<uint64_t>(need.ids, 1), RequestName::kOwnBlock, &ids).has_value() &&
                    Take(std::max<uint64_t>(need.ops, 1), RequestName::kOwnBlock / 2, &ops).has_value();
  if (fits) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a request needs ", need.ids, " names of arrays and ", need.ops,
                                                   " of commands, for which ", ToString(session_),
                                                   " has no room: divide the request, or open another session"));
}

NameScope::NameScope(std::shared_ptr<OwnNames> own, uint64_t request, RequestHold hold)
    : own_(std::move(own)), hold_(std::move(hold)) {
  ids_ = {{own_->session(), request, 0, false}, kMostIds, 0};
  ops_ = {{own_->session(), request, 0, false}, kMostOps, 0};
}

uint64_t NameScope::NextId() { return ReserveIds(1); }

uint64_t NameScope::ReserveIds(uint64_t count) {
  if (count <= ids_.left()) {
    RequestName first = ids_.first;
    first.count += ids_.used;
    if (const std::optional<uint64_t> number = Numbered(first, count)) {
      ids_.used += count;
      return *number;
    }
  }
  const std::optional<RequestName> own = own_->TakeIds(count);
  PW_CHECK(own.has_value());  // CheckRoom
  return *Numbered(*own, count);
}

std::optional<RequestName> NameScope::OpAt(uint64_t k) const {
  if (k >= ops_.size) return std::nullopt;
  RequestName name = ops_.first;
  name.count += k;
  return name;
}

OpId NameScope::OwnOp(bool joint) {
  std::optional<RequestName> own = own_->TakeOps(1);
  PW_CHECK(own.has_value());  // CheckRoom
  own->count = OpCount(own->count, joint);
  return OpId(*own->Number());
}

// Returns the number of ops that a host may have.
uint64_t NameScope::UsedOps() const {
  uint64_t most = 0;
  for (const auto& [host, ops] : ops_of_) most = std::max(most, ops);
  return ops_.used + most;
}

OpId NameScope::NextOp(HostId host) {
  if (ops_.size == 0) return OwnOp(false);
  uint64_t& of_host = ops_of_[host];
  if (std::optional<RequestName> name = OpAt(ops_.used + of_host)) {
    name->count = OpCount(name->count, false);
    if (const std::optional<uint64_t> number = name->Number()) {
      ++of_host;
      return OpId(*number);
    }
  }
  return OwnOp(false);
}

OpId NameScope::NextOpOfAll(bool joint) {
  ops_.used = std::min(UsedOps(), ops_.size);
  ops_of_.clear();
  if (std::optional<RequestName> name = OpAt(ops_.used)) {
    name->count = OpCount(name->count, joint);
    if (const std::optional<uint64_t> number = name->Number()) {
      ++ops_.used;
      return OpId(*number);
    }
  }
  return OwnOp(joint);
}

NameScope NameScope::Take(const NameNeed& need) {
  NameScope taken(own_);
  taken.hold_ = hold_;
  ops_.used = std::min(UsedOps(), ops_.size);
  ops_of_.clear();
  const auto part = [](Names& names, uint64_t count) {
    Names of = {names.first, std::min(count, names.left()), 0};
    of.first.count += names.used;
    names.used += of.size;
    return of;
  };
  taken.ids_ = part(ids_, need.ids);
  taken.ops_ = part(ops_, need.ops);
  return taken;
}

absl::Status NameScope::CheckRoom(const NameNeed& need) const {
  if (ids_.size == 0 && ops_.size == 0) return own_->CheckRoom(need);
  RequestName name = ids_.first;
  if (!name.Number(1).has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("request ", name.request, " of ", ToString(name.session),
                     " has a number that is too large for the names of arrays: open another session"));
  }
  const uint64_t ops_used = UsedOps();
  name.count += ids_.used;
  RequestName op = ops_.first;
  op.count = OpCount(op.count + ops_used, true);
  const bool fits = need.ids <= ids_.left() && ops_used + need.ops <= ops_.size && need.ops <= kMostOps &&
                    name.Number(name.count + need.ids).has_value() && op.Number(op.count + 2 * need.ops).has_value();
  return fits ? absl::OkStatus() : own_->CheckRoom(need);
}

}  // namespace pw::controller
