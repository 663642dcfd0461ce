#include "pathways/sim/workload.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/sim/workloads.h"

namespace pw::sim {

Workload::Workload(const WorkloadContext& context, const WorkloadSpec& spec)
    : context_(context),
      spec_(spec),
      process_(context.cluster->NewClient(absl::StrCat(spec.kind, ".", context.number), absl::Microseconds(1))) {}

int64_t Workload::Number(const std::string& name, int64_t otherwise) const {
  const auto it = spec_.numbers.find(name);
  return it == spec_.numbers.end() ? otherwise : it->second;
}

void Workload::Start(Done done) {
  done_ = std::move(done);
  process_->Post([this] { Open(); });
}

void Workload::Open() {
  tenants_.push_back(std::make_unique<Tenant>(context_.cluster, process_));
  tenant().Open([this](const std::vector<int32_t>& devices) {
    std::map<std::string, size_t> place;
    hosts_.clear();
    for (int32_t device : devices) {
      const std::string host = referee().HostOf(device);
      auto [it, added] = place.emplace(host, hosts_.size());
      if (added) hosts_.emplace_back();
      hosts_[it->second].push_back(device);
    }
    if (hosts_.empty()) return Finish();
    Go();
  });
}

void Workload::Reopen() {
  tenant().Close();
  Open();
}

void Workload::Finish() {
  if (finished_) return;
  finished_ = true;
  tenant().Close();
  done_();
}

void Workload::Kill() {
  if (finished_) return;
  finished_ = killed_ = true;
  context_.cluster->KillClient(process_);
  if (!tenants_.empty()) tenant().Close();
  done_();
}

uint64_t Workload::requests() const {
  uint64_t sum = 0;
  for (const auto& tenant : tenants_) sum += tenant->client().requests();
  return sum;
}
uint64_t Workload::answers() const {
  uint64_t sum = 0;
  for (const auto& tenant : tenants_) sum += tenant->client().answers();
  return sum;
}
uint64_t Workload::strays() const {
  uint64_t sum = 0;
  for (const auto& tenant : tenants_) sum += tenant->client().strays();
  return sum;
}
uint64_t Workload::reads() const {
  uint64_t sum = 0;
  for (const auto& tenant : tenants_) sum += tenant->reads();
  return sum;
}
uint64_t Workload::errors() const {
  uint64_t sum = 0;
  for (const auto& tenant : tenants_) sum += tenant->errors();
  return sum;
}

std::unique_ptr<Workload> MakeWorkload(const WorkloadContext& context, const WorkloadSpec& spec) {
  if (spec.kind == "chain") return MakeChain(context, spec);
  if (spec.kind == "pipeline") return MakePipeline(context, spec);
  if (spec.kind == "training") return MakeTraining(context, spec);
  if (spec.kind == "exchange") return MakeExchange(context, spec);
  return MakeMix(context, spec);
}

}  // namespace pw::sim
