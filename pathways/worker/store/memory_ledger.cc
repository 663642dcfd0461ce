#include "pathways/worker/store/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pw::worker {

namespace {

using Holder = std::pair<int64_t, uint64_t>;  // bytes, session

std::string Listed(std::vector<Holder> holders) {
  std::sort(holders.rbegin(), holders.rend());
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < holders.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "session ", holders[i].second, " holds ", HumanBytes(holders[i].first));
  }
  if (holders.size() > kShown) absl::StrAppend(&text, ", and ", holders.size() - kShown, " more");
  return holders.empty() ? "nobody holds any" : text;
}

}  // namespace

void MemoryLedger::Charge(int device, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  Device& d = devices_[device];
  d.used += bytes;
  d.peak = std::max(d.peak, d.used);
  d.by_session[session].used += bytes;
}

void MemoryLedger::Refund(int device, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  Device& d = devices_[device];
  d.used -= bytes;
  ++refunds_;
  d.by_session[session].used -= bytes;
  ForgetIfEmpty(d, session);
}

void MemoryLedger::MovedOut(int device, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  Device& d = devices_[device];
  moved_out_bytes_ += bytes;
  if (bytes < 0) ++refunds_;
  d.by_session[session].moved_out += bytes;
  ForgetIfEmpty(d, session);
}

void MemoryLedger::ForgetIfEmpty(Device& device, SessionId session) {
  const auto it = device.by_session.find(session);
  if (it->second.used == 0 && it->second.moved_out == 0) device.by_session.erase(it);
}

std::map<uint64_t, int64_t> MemoryLedger::UsedBySession(int device) const {
  std::map<uint64_t, int64_t> result;
  for (const auto& [session, holding] : devices_[device].by_session) {
    if (holding.used != 0) result[session.v] = holding.used;
  }
  return result;
}

int64_t MemoryLedger::HeldBy(int device, const std::set<SessionId>& sessions) const {
  const Device& d = devices_[device];
  int64_t sum = 0;
  for (SessionId session : sessions) {
    const auto it = d.by_session.find(session);
    if (it != d.by_session.end()) sum += it->second.used + it->second.moved_out;
  }
  return sum;
}

bool MemoryLedger::Holds(SessionId session) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const Device& d) { return d.by_session.contains(session); });
}

int64_t MemoryLedger::charged_bytes() const {
  int64_t sum = 0;
  for (const Device& device : devices_) {
    for (const auto& [session, holding] : device.by_session) sum += holding.used + holding.moved_out;
  }
  return sum;
}

std::string MemoryLedger::Holders(int device) const {
  std::vector<Holder> holders;
  for (const auto& [session, bytes] : UsedBySession(device)) holders.emplace_back(bytes, session);
  return Listed(std::move(holders));
}

std::string MemoryLedger::HoldersAmong(int device, const std::set<SessionId>& sessions) const {
  std::vector<Holder> holders;
  for (SessionId session : sessions) {
    if (const int64_t bytes = HeldBy(device, {session}); bytes != 0) holders.emplace_back(bytes, session.v);
  }
  return Listed(std::move(holders));
}

std::string HumanBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace pw::worker
