#include "pathways/controller/hosts/ops_in_flight.h"

#include <algorithm>
#include <utility>

#include "pathways/base/sorted_keys.h"
#include "pathways/session/wire.h"

namespace pw::controller {

OpId OpsInFlight::Add(HostId host, std::shared_ptr<const WeakArrays> results, Callback done, gang::GangId gang, bool joint) {
  const uint64_t id = 2 * next_++ + (joint ? 1 : 0);
  ops_.insert({id, Op{host, std::move(results), std::move(done), gang, {}}});
  return OpId(id);
}

void OpsInFlight::OnDone(HostId host, const ::pathways::v1::Done& done) {
  absl::flat_hash_map<uint64_t, double> times;
  for (const auto& timed : done.timed()) times[timed.op()] = timed.device_microseconds();
  for (const auto& poisoned : done.poisoned()) Poisoned(host, poisoned);
  for (int i = 0; i < done.ok_size(); ++i) {
    auto it = times.find(done.ok(i));
    const double busy = i < done.device_microseconds_size() ? done.device_microseconds(i) : 0;
    Complete(host, done.ok(i), absl::OkStatus(), it == times.end() ? std::nullopt : std::optional<double>(it->second), busy);
  }
  for (const auto& failed : done.failed()) {
    absl::Status status = session::StatusFrom(failed.status());
    if (status.ok()) status = absl::InternalError("a host reported a failure without an error code");
    Complete(host, failed.op(), status, std::nullopt, 0);
  }
}

void OpsInFlight::Poisoned(HostId host, const ::pathways::v1::Done::Poisoned& poisoned) {
  auto it = ops_.find(poisoned.op());
  if (it == ops_.end() || it->second.host != host) return;
  absl::Status status = session::StatusFrom(poisoned.status());
  if (status.ok()) status = absl::InternalError("a host reported a failure without an error code");
  it->second.partial.Update(status);
  for (uint32_t k : poisoned.results()) {
    if (it->second.results == nullptr || k >= it->second.results->size()) continue;
    if (auto array = (*it->second.results)[k].lock()) array->Poison(status);
  }
}

void OpsInFlight::OnHostLost(HostId host, const absl::Status& error) {
  for (Op& op : TakeWhere(ops_, [host](const Op& o) { return o.host == host; })) Finish(std::move(op), error, std::nullopt, 0);
}

size_t OpsInFlight::CountFor(HostId host) const {
  return std::count_if(ops_.begin(), ops_.end(), [host](const auto& entry) { return entry.second.host == host; });
}

std::map<HostId, OpId> OpsInFlight::HostsOf(gang::GangId gang) const {
  std::map<HostId, OpId> hosts;
  for (const auto& [id, op] : ops_) {
    if (op.gang == gang) hosts.emplace(op.host, OpId(id));
  }
  return hosts;
}

void OpsInFlight::Complete(HostId host, uint64_t id, const absl::Status& status, std::optional<double> timed,
                           double busy_microseconds) {
  auto it = ops_.find(id);
  if (it == ops_.end() || it->second.host != host) return;
  Op op = std::move(it->second);
  ops_.erase(it);
  Finish(std::move(op), status, timed, busy_microseconds);
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
