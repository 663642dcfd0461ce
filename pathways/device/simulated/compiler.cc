#include "pathways/device/simulated/compiler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pathways/base/status_macros.h"

namespace pw::device {

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

// The next power of two: few runtimes serve all sizes, and small programs need no large one.
absl::StatusOr<DeviceRuntime*> Compiler::RuntimeFor(int devices) {
  int size = 1;
  while (size < devices) size *= 2;
  std::unique_ptr<DeviceRuntime>& runtime = runtimes_[size];
  if (runtime == nullptr) {
    PW_ASSIGN_OR_RETURN(runtime, make_(size));
  }
  return runtime.get();
}

absl::Duration Compiler::BusyWith(LoadedProgram& program) const {
  if (speed_.flops_per_second <= 0 && speed_.bytes_per_second <= 0) return absl::ZeroDuration();
  absl::StatusOr<std::map<std::string, double>> costs = program.CostAnalysis();
  if (!costs.ok()) return absl::ZeroDuration();
  double seconds = 0;
  if (speed_.flops_per_second > 0) seconds = std::max(seconds, (*costs)["flops"] / speed_.flops_per_second);
  if (speed_.bytes_per_second > 0) seconds = std::max(seconds, (*costs)["bytes accessed"] / speed_.bytes_per_second);
  return absl::Seconds(std::max(seconds, 0.0));  // an unknown cost is negative
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
  const absl::Duration busy = BusyWith(*program);
  auto compiled = std::make_shared<CompiledProgram>(std::move(program), busy);
  programs_[std::move(key)] = compiled;
  return compiled;
}

int Compiler::compilations() const {
  std::lock_guard<std::mutex> lock(mu_);
  return compilations_;
}

}  // namespace pw::device
