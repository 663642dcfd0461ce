#include "pathways/worker/store/memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pw::worker {

void MemoryLedger::Charge(int device, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  Device& d = devices_[device];
  d.used += bytes;
  d.peak = std::max(d.peak, d.used);
  d.by_session[session] += bytes;
}

void MemoryLedger::Refund(int device, SessionId session, int64_t bytes) {
  if (bytes == 0) return;
  Device& d = devices_[device];
  d.used -= bytes;
  ++refunds_;
  auto it = d.by_session.find(session);
  it->second -= bytes;
  if (it->second == 0) d.by_session.erase(it);
}

std::map<uint64_t, int64_t> MemoryLedger::UsedBySession(int device) const {
  std::map<uint64_t, int64_t> result;
  for (const auto& [session, bytes] : devices_[device].by_session) result[session.v] = bytes;
  return result;
}

std::string MemoryLedger::Holders(int device) const {
  std::vector<std::pair<int64_t, uint64_t>> holders;
  for (const auto& [session, bytes] : devices_[device].by_session) holders.emplace_back(bytes, session.v);
  std::sort(holders.rbegin(), holders.rend());
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < holders.size() && i < kShown; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", "session ", holders[i].second, " holds ", HumanBytes(holders[i].first));
  }
  if (holders.size() > kShown) absl::StrAppend(&text, ", and ", holders.size() - kShown, " more");
  return holders.empty() ? "nobody holds any" : text;
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
