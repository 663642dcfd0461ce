#include "pathways/device/simulated/compiler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pathways/base/status_macros.h"

namespace pw::device {
namespace {

// Returns 0 for an unknown cost, which is negative or missing.
double Cost(const std::map<std::string, double>& costs, const char* name) {
  const auto found = costs.find(name);
  return found == costs.end() ? 0 : std::max(found->second, 0.0);
}

absl::Duration Over(double amount, double per_second) {
  return per_second > 0 ? absl::Seconds(amount / per_second) : absl::ZeroDuration();
}

absl::Duration RingTime(const std::map<std::string, double>& costs, const RingSpeed& speed) {
  return Over(Cost(costs, "collective bytes"), speed.bytes_per_second) + speed.latency * Cost(costs, "collective steps");
}

}  // namespace

Busy BusyWith(const std::map<std::string, double>& costs, const DeviceSpeed& speed) {
  const absl::Duration computing =
      std::max(Over(Cost(costs, "flops"), speed.flops_per_second), Over(Cost(costs, "bytes accessed"), speed.bytes_per_second));
  return {computing + RingTime(costs, speed.ring), computing + RingTime(costs, speed.between)};
}

std::shared_ptr<const ProgramInfo> CompiledProgram::InfoFor(const std::vector<int>& devices) {
  std::lock_guard<std::mutex> lock(mu_);
  std::shared_ptr<const ProgramInfo>& found = infos_[devices];
  if (found == nullptr) {
    auto info = std::make_shared<ProgramInfo>(program_->info());
    info->devices = devices;
    found = std::move(info);
  }
  return found;
}

absl::StatusOr<std::pair<RuntimeInfo, DeviceInfo>> Compiler::Describe() {
  std::lock_guard<std::mutex> lock(mu_);
  PW_ASSIGN_OR_RETURN(DeviceRuntime * runtime, RuntimeFor(1));
  return std::make_pair(runtime->info(), runtime->devices().front());
}

// Rounds up to a power of two: few runtimes serve all sizes, and small programs get a small one.
absl::StatusOr<DeviceRuntime*> Compiler::RuntimeFor(int devices) {
  int size = 1;
  while (size < devices) size *= 2;
  std::unique_ptr<DeviceRuntime>& runtime = runtimes_[size];
  if (runtime == nullptr) {
    PW_ASSIGN_OR_RETURN(runtime, make_(size));
  }
  return runtime.get();
}

absl::StatusOr<std::shared_ptr<CompiledProgram>> Compiler::Compile(const CompileRequest& request) {
  Key key(request.format, request.program, request.options, request.num_replicas, request.num_partitions, request.host_callbacks);
  std::lock_guard<std::mutex> lock(mu_);
  if (auto it = programs_.find(key); it != programs_.end()) {
    if (std::shared_ptr<CompiledProgram> found = it->second.lock(); found != nullptr) return found;
  }
  std::erase_if(programs_, [](const auto& entry) { return entry.second.expired(); });
  CompileRequest whole = request;
  whole.devices.resize(request.num_replicas * request.num_partitions);
  std::iota(whole.devices.begin(), whole.devices.end(), 0);
  whole.positions.clear();
  PW_ASSIGN_OR_RETURN(DeviceRuntime * runtime, RuntimeFor(static_cast<int>(whole.devices.size())));
  ++compilations_;
  PW_ASSIGN_OR_RETURN(std::shared_ptr<LoadedProgram> program, runtime->Compile(whole));
  absl::StatusOr<std::map<std::string, double>> costs = program->CostAnalysis();
  const Busy busy = costs.ok() ? BusyWith(*costs, speed_) : Busy();
  auto compiled = std::make_shared<CompiledProgram>(std::move(program), busy);
  programs_[std::move(key)] = compiled;
  return compiled;
}

int Compiler::compilations() const {
  std::lock_guard<std::mutex> lock(mu_);
  return compilations_;
}

}  // namespace pw::device
