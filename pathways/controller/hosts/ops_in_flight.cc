#include "pathways/controller/hosts/ops_in_flight.h"

#include <algorithm>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/session/wire.h"

namespace pw::controller {

void OpsInFlight::Add(HostId host, OpId op, std::shared_ptr<const WeakArrays> results, Callback done, gang::GangId gang) {
  const bool is_new = ops_.try_emplace(Key(host, op.v), Op{std::move(results), std::move(done), gang}).second;
  PW_CHECK(is_new);
  settlement_->Hold(op.v);
}

void OpsInFlight::OnDone(HostId host, const ::pathways::v1::Done& done) {
  absl::flat_hash_map<uint64_t, double> times;
  for (const auto& timed : done.timed()) times[timed.op()] = timed.device_microseconds();
  for (const auto& poisoned : done.poisoned()) OnPoisoned(host, poisoned);
  for (int i = 0; i < done.ok_size(); ++i) {
    auto it = times.find(done.ok(i));
    const double busy = i < done.device_microseconds_size() ? done.device_microseconds(i) : 0;
    Complete(host, done.ok(i), absl::OkStatus(), it == times.end() ? std::nullopt : std::optional<double>(it->second), busy);
  }
  for (const auto& failed : done.failed()) {
    Explain(host, failed.status(),
            [this, host, op = failed.op()](const absl::Status& status) { Complete(host, op, status, std::nullopt, 0); });
  }
}

// Returns null if the host has no such op.
OpsInFlight::Op* OpsInFlight::Find(HostId host, uint64_t op) {
  auto it = ops_.find(Key(host, op));
  return it == ops_.end() ? nullptr : &it->second;
}

void OpsInFlight::Explain(HostId host, const ::pathways::v1::Status& error, HostLosses::Then then) {
  const absl::Status status = session::StatusFrom(error);
  if (status.ok()) return std::move(then)(absl::InternalError("a host reported a failure without an error code"));
  losses_->Explain(host, status, std::move(then));
}

void OpsInFlight::OnPoisoned(HostId host, const ::pathways::v1::Done::Poisoned& poisoned) {
  Op* const op = Find(host, poisoned.op());
  if (op == nullptr) return;
  ++op->unexplained;
  Explain(host, poisoned.status(), [this, host, poisoned](const absl::Status& status) { Poison(host, poisoned, status); });
}

void OpsInFlight::Poison(HostId host, const ::pathways::v1::Done::Poisoned& poisoned, const absl::Status& status) {
  Op* const op = Find(host, poisoned.op());
  if (op == nullptr) return;
  op->partial.Update(status);
  for (uint32_t k : poisoned.results()) {
    if (op->results == nullptr || k >= op->results->size()) continue;
    if (auto array = (*op->results)[k].lock()) array->Poison(status);
  }
  if (--op->unexplained == 0 && op->complete) std::exchange(op->complete, nullptr)();
}

void OpsInFlight::OnHostLost(HostId host, const absl::Status& error) {
  std::vector<Key> lost;
  for (const auto& [key, op] : ops_) {
    if (key.first == host) lost.push_back(key);
  }
  std::sort(lost.begin(), lost.end());
  std::vector<Op> taken;
  for (const Key& key : lost) taken.push_back(std::move(ops_.extract(key).mapped()));
  for (size_t i = 0; i < taken.size(); ++i) {
    Finish(std::move(taken[i]), error, std::nullopt, 0);
    settlement_->Release(host, lost[i].second);
  }
}

size_t OpsInFlight::CountFor(HostId host) const {
  return std::count_if(ops_.begin(), ops_.end(), [host](const auto& entry) { return entry.first.first == host; });
}

std::map<HostId, OpId> OpsInFlight::HostsOf(gang::GangId gang) const {
  std::map<HostId, OpId> hosts;
  for (const auto& [key, op] : ops_) {
    if (op.gang == gang) hosts.emplace(key.first, OpId(key.second));
  }
  return hosts;
}

void OpsInFlight::Complete(HostId host, uint64_t id, const absl::Status& status, std::optional<double> timed,
                           double busy_microseconds) {
  Op* const found = Find(host, id);
  if (found == nullptr) return;
  if (found->unexplained > 0) {
    found->complete = [this, host, id, status, timed, busy_microseconds] {
      Complete(host, id, status, timed, busy_microseconds);
    };
    return;
  }
  Op op = std::move(*found);
  ops_.erase(Key(host, id));
  Finish(std::move(op), status, timed, busy_microseconds);
  settlement_->Release(host, id);  // last: what the end begins may hold the request
}

void OpsInFlight::Finish(Op op, const absl::Status& status, std::optional<double> timed, double busy_microseconds) {
  if (op.results != nullptr) {
    for (const auto& weak : *op.results) {
      if (auto array = weak.lock()) array->OnDone(status);
    }
  }
  const bool partly = !op.partial.ok();
  if (op.done) std::move(op.done)(status.ok() ? op.partial : status, timed);
  if (op.gang == gang::GangId()) return;
  gangs_->OnHostDone(op.gang, status.ok() ? std::optional<double>(busy_microseconds) : std::nullopt, partly);
}

}  // namespace pw::controller
